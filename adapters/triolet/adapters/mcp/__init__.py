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
from triolet.adapters.mcp.servers import HttpServer, McpServer, StdioServer, WebSocketServer
from triolet.adapters.mcp.source import McpSource, connect_mcp, open_mcp

__all__ = [
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
    "WebSocketServer",
    "connect_mcp",
    "open_mcp",
]
