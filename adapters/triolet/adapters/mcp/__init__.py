"""Tools of MCP servers, as a tool source: over stdio, streamable HTTP and WebSocket."""

from triolet.adapters.mcp.errors import (
    InvalidMcpServer,
    McpCallRefused,
    McpConnectionLost,
    McpDenied,
    McpResultUnusable,
    McpTimedOut,
    McpToolFailed,
    McpUnavailable,
)
from triolet.adapters.mcp.limits import McpLimits, McpTimes
from triolet.adapters.mcp.messages import Diagnostics
from triolet.adapters.mcp.policy import McpPolicy
from triolet.adapters.mcp.servers import CustomServer, HttpServer, McpServer, StdioServer, WebSocketServer
from triolet.adapters.mcp.source import McpSource, connect_mcp, open_mcp
from triolet.adapters.mcp.wire import Arrived, Unanswered, Wire, WireLost

__all__ = [
    "Arrived",
    "CustomServer",
    "Diagnostics",
    "HttpServer",
    "InvalidMcpServer",
    "McpCallRefused",
    "McpConnectionLost",
    "McpDenied",
    "McpLimits",
    "McpPolicy",
    "McpResultUnusable",
    "McpServer",
    "McpSource",
    "McpTimedOut",
    "McpTimes",
    "McpToolFailed",
    "McpUnavailable",
    "StdioServer",
    "Unanswered",
    "WebSocketServer",
    "Wire",
    "WireLost",
    "connect_mcp",
    "open_mcp",
]
