// A server on the official TypeScript SDK whose tools change while it runs, for tests. Speaks on standard input and output.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";

const server = new McpServer({ name: "changing", version: "1.0.0" });
const answer = (text) => async () => ({ content: [{ type: "text", text }] });

const before = server.registerTool("before", { description: "Here at first" }, answer("before"));
server.registerTool("swap", { description: "Change the tools" }, async () => {
  before.remove();
  server.registerTool("after", { description: "Here later" }, answer("after"));
  return { content: [{ type: "text", text: "swapped" }] };
});

await server.connect(new StdioServerTransport());
