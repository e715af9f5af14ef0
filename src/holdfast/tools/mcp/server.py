"""What is known of an MCP server: how it is reached, whether it may be, and how it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

State = Literal["blocked", "starting", "connected", "waiting", "failed", "closed"]
"""`blocked` was never tried, `waiting` will be tried again, `failed` will not."""


class Lost(Exception):
    """The connection to a server is over; the text says why, as part of a sentence."""


class Server(Struct, frozen=True, kw_only=True):
    """One server, ready to be started or connected to: `command` with what belongs to it, or `url` with `headers`.

    `origin` is the place that names it. `project` means a file of the workspace: such a server needs the user's
    approval of exactly the definition that `digest` stands for. `definition` is what a user is shown of it, as it is
    written there. `blocked` says why it is not used, as a sentence; empty where it is. `ourselves` is Holdfast, which
    other clients may use.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    timeout_s: float | None = None
    start_timeout_s: float | None = None
    read_only: tuple[str, ...] = ()
    trust_hints: bool = False
    origin: str = ""
    project: bool = False
    workspace: str = ""
    digest: str = ""
    definition: str = ""
    blocked: str = ""
    ourselves: bool = False

    def __repr__(self) -> str:
        """Variables, headers and arguments may hold secrets, and a value is easily printed."""
        return f"Server(name={self.name!r}, origin={self.origin!r}, definition={self.definition!r})"


class Status(Struct, frozen=True, kw_only=True):
    """How a server is now. `why` says in sentences why it is not connected; `warnings` are what was left out."""

    server: str
    state: State
    why: str = ""
    tools: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    version: str = ""
    """Name and version that the server gave itself."""
