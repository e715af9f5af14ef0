"""MCP servers, and how their tools are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Struct

from holdfast.config.sections.marks import MANY, Names, about, count, name

_TEXT = r"^[^\x00]*\Z"
_TEXTS = tuple[Annotated[str, about("", pattern=_TEXT)], ...]
_DAY_S = 86_400


class ServerTable(Struct, frozen=True, kw_only=True):
    """What `[mcp.servers.NAME]` may say: a program to start, or an address to connect to.

    `${VAR}` and `${VAR:-default}` in `command`, `args`, `env`, `cwd`, `url` and `headers` are replaced from the
    environment, so that no secret has to stand here.
    """

    command: Annotated[str, name("Program to start; it speaks MCP on its standard input and output.")] | None = None
    args: Annotated[_TEXTS, about("Its arguments.", allowed="a list of texts")] = ()
    env: Annotated[
        Mapping[str, Annotated[str, about("", pattern=_TEXT)]],
        about("Its variables, besides PATH, HOME and the like.", allowed="a table whose values are texts"),
    ] = {}
    cwd: Annotated[str, name("Directory it is started in; relative ones belong to the workspace.")] | None = None
    url: (
        Annotated[
            str,
            about(
                "Address of a server that speaks MCP over HTTP (streamable HTTP).",
                pattern=r"^(https?://|\$\{)[^\s]+\Z",
                allowed="an http:// or https:// address",
            ),
        ]
        | None
    ) = None
    headers: Annotated[
        Mapping[str, Annotated[str, about("", pattern=r"^[^\x00\r\n]*\Z")]],
        about("Headers sent to `url`.", allowed="a table whose values are texts, one line each"),
    ] = {}
    enabled: Annotated[bool, about("Use this server.")] = True
    timeout_s: Annotated[float, about("Seconds a call may take; unset: `mcp.timeout_s`.", gt=0, le=_DAY_S)] | None = (
        None
    )
    start_timeout_s: (
        Annotated[float, about("Seconds it may take to start; unset: `mcp.start_timeout_s`.", gt=0, le=_DAY_S)] | None
    ) = None
    read_only: Annotated[
        Names,
        about(
            "Its tools that change nothing, by name or pattern (`get_*`): they run side by side, without a question."
        ),
    ] = ()
    trust_hints: Annotated[bool, about("Believe the server where it says that a tool changes nothing.")] = False


class DeclaredServer(ServerTable, frozen=True, kw_only=True):
    """A server as it was read. `origin` is the place that says so; `project` means a file of the workspace, which may
    be a stranger's."""

    origin: str = ""
    project: bool = False


class McpSettings(Struct, frozen=True):
    """MCP servers and their tools."""

    project: Annotated[
        Literal["ask", "allow", "never"],
        about("Servers that a workspace names: used once you approved them, always, or never.", guarded=True),
    ] = "ask"
    timeout_s: Annotated[float, about("Seconds a call of an MCP tool may take.", gt=0, le=_DAY_S)] = 300
    start_timeout_s: Annotated[float, about("Seconds a server may take to start.", gt=0, le=_DAY_S)] = 30
    ping_s: Annotated[
        float,
        about("Seconds of silence after which a server at an address is asked whether it is there.", gt=0, le=_DAY_S),
    ] = 30
    reconnect_s: Annotated[
        float, about("Seconds before a lost server is tried again; doubled each time.", gt=0, le=_DAY_S)
    ] = 1
    reconnect_max_s: Annotated[float, about("Longest time between two tries.", gt=0, le=_DAY_S)] = 60
    reconnect_tries: Annotated[int, count("Tries in a row before a server is given up.")] = 10
    max_message_bytes: Annotated[
        int, count("Largest message a server may send; a larger result is an error.", least=10_000)
    ] = 20_000_000
    description_chars: Annotated[
        int, count("Longest description of a tool; the rest is cut.", least=100, most=MANY)
    ] = 2048
    servers: Annotated[
        Mapping[str, DeclaredServer],
        about(
            "The servers, one table each; those of all files are used together.",
            allowed="one table for each server, see below",
        ),
    ] = {}
