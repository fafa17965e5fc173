"""A small MCP client built on the adapter, for the official conformance suite: it calls every tool that it is offered.

python conformance_client.py URL
"""

import sys

import trio

from tests.mcp_peer import Handle
from triolet.adapters.mcp import HttpServer, open_mcp


async def main(url: str) -> None:
    """Connect, and call each tool with a one for each property."""
    async with open_mcp(HttpServer(url=url), name="conformance") as source:
        for tool in (await source.snapshot()).tools:
            properties = tool.input.schema.get("properties", {})
            given = tool.input.decode(dict.fromkeys(properties if isinstance(properties, dict) else {}, 1))
            result = await tool.handler(given, Handle())  # type: ignore[arg-type]  # all that these tools use of one
            print(tool.name, result)


if __name__ == "__main__":
    trio.run(main, sys.argv[-1])
