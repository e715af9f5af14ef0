"""Tools of MCP servers: which servers there are, who allowed them, and a hub that keeps them connected.

A server's list of tools may change and the server may go at any time; the hub tells every live session's owner of the
tools array, which decides what that does to a prompt. The MCP SDK is imported when a server is started, not before.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .approvals import approve as approve
    from .approvals import approved as approved
    from .approvals import revoke as revoke
    from .configuration import servers as servers
    from .hub import Hub as Hub
    from .server import Server as Server
    from .server import Status as Status
    from .startup import started as started
    from .startup import unconnected as unconnected
    from .startup import usable as usable
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".approvals": "approve approved revoke",
            ".configuration": "servers",
            ".hub": "Hub",
            ".server": "Server Status",
            ".startup": "started unconnected usable",
        },
    )
