// The reference server behind a WebSocket, for tests: one server for each connection, a JSON-RPC message a frame.
// Usage: node websocket_bridge.mjs PORT. Prints one line once it listens.
import { createServer } from "@modelcontextprotocol/server-everything/dist/server/index.js";
import { WebSocketServer } from "ws";

const sockets = new WebSocketServer({
  host: "127.0.0.1",
  port: Number(process.argv[2]),
  handleProtocols: (offered) => (offered.has("mcp") ? "mcp" : false),
});

sockets.on("listening", () => console.log("listening"));
sockets.on("connection", async (socket) => {
  const { server, cleanup } = createServer();
  const transport = {
    async start() {
      socket.on("message", (data) => transport.onmessage?.(JSON.parse(data.toString())));
      socket.on("error", (error) => transport.onerror?.(error));
      socket.on("close", () => {
        cleanup?.();
        transport.onclose?.();
      });
    },
    async send(message) {
      // What is still on its way when the peer leaves has nobody to go to.
      if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(message));
    },
    async close() {
      socket.close();
    },
  };
  await server.connect(transport);
});
