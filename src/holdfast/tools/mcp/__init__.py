"""Tools of MCP servers: which servers there are, who allowed them, and a hub that keeps them connected.

A server's list of tools may change and the server may go at any time; the hub tells every live session's owner of the
tools array, which decides what that does to a prompt. The MCP SDK is imported when a server is started, not before.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .configuration import McpServer as McpServer
    from .configuration import McpServerStatus as McpServerStatus
    from .configuration import approve as approve
    from .configuration import approved as approved
    from .configuration import revoke as revoke
    from .configuration import servers as servers
    from .hub import Hub as Hub
    from .hub import started as started
    from .hub import unconnected as unconnected
    from .hub import usable as usable
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".configuration": "McpServer McpServerStatus approve approved revoke servers",
            ".hub": "Hub started unconnected usable",
        },
    )
