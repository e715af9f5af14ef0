"""Tools of MCP servers: which servers there are, who allowed them, and a hub that keeps them connected.

A server's list of tools may change and the server may go at any time; the hub tells every live session's owner of the
tools array, which decides what that does to a prompt. The MCP SDK is imported when a server is started, not before.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .configuration import McpServer, McpServerStatus, approve, approved, revoke, servers
    from .hub import Hub, started, unconnected, usable
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".configuration": "McpServer McpServerStatus approve approved revoke servers",
            ".hub": "Hub started unconnected usable",
        },
    )
