"""Tools of MCP servers: which servers there are, who allowed them, and a hub that keeps them connected.

A server's list of tools may change and the server may go at any time; the hub tells every live session's owner of the
tools array, which decides what that does to a prompt. The MCP SDK is imported when a server is started, not before.
"""

from .approvals import approve, approved, revoke
from .configuration import servers
from .hub import Hub
from .server import Server, Status

__all__ = ["Hub", "Server", "Status", "approve", "approved", "revoke", "servers"]
