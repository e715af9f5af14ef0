"""`holdfast mcp`: explain, and the tools of configured MCP servers, offered to other agents."""
