"""`holdfast mcp --list`, `--approve` and `--revoke`: which MCP servers there are, how they are, which may be used."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence

import click
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.tables import Column, printable
from holdfast.config import Config
from holdfast.errors import HoldfastError
from holdfast.tools import definition_of, size_of
from holdfast.tools.mcp import Hub, McpServer, McpServerStatus, approve, approved, revoke
from holdfast.wording import counted

from .. import tables
from ..store_options import as_json
from . import stdio
from .tools import configured

_COLUMNS = (
    Column("SERVER", 0, least=12),
    Column("STATE", 1),
    Column("TOOLS", 2, right=True),
    Column("TOKENS", 3, right=True),
    Column("APPROVAL", 4),
    Column("FROM", 5, least=16),
)


class ServerRow(Struct, frozen=True, kw_only=True):
    """One server. `approval` is `own` for one that the user's own files name. `tokens` is about what the definitions of
    its tools would take in every request that declares them; None where they are not known."""

    name: str
    origin: str
    definition: str
    approval: str
    state: str
    why: str
    version: str
    tools: tuple[str, ...]
    tokens: int | None
    warnings: tuple[str, ...]


class ServerListing(Struct, frozen=True):
    servers: tuple[ServerRow, ...]


def listing(json_: bool) -> int:
    """Connect to every server once and say what came of it."""
    config, servers = configured()
    usable = [name for name, server in servers.items() if not server.blocked]
    if usable:
        longest = max(servers[name].start_timeout_s or config.settings.mcp.start_timeout_s for name in usable)
        tables.remark(f"connecting to {counted(len(usable), 'server')}, for {longest:g} seconds at most")
    listing_ = ServerListing(tuple(stdio.run(lambda: _ask(config, servers))))
    if json_:
        click.echo(as_json(listing_))
        return 0
    if not servers:
        click.echo(
            "No MCP servers are configured. Name them in [mcp.servers.NAME] of "
            f"{printable(config.home / 'holdfast.toml')} or in .mcp.json here: docs/mcp.md has examples."
        )
        return 0
    tables.show(_lines(listing_.servers, tables.width()))
    return 0


async def _ask(config: Config, servers: dict[str, McpServer]) -> list[ServerRow]:
    # One try each: this is a look, nobody waits for a server that comes back later.
    settings = replace(config.settings.mcp, reconnect_tries=0)
    async with Hub(servers, settings=settings, workspace=config.workspace) as hub:
        sizes = {tool.name: size_of(definition_of(tool)) for tool in hub.tools()}
        return [_shown(config, servers[each.server], each, sizes) for each in hub.status()]


def _shown(config: Config, server: McpServer, status: McpServerStatus, sizes: dict[str, int]) -> ServerRow:
    tokens = sum(sizes[name] for name in status.tools)
    return ServerRow(
        name=server.name,
        origin=server.origin,
        definition=server.definition,
        approval=_approval(config, server),
        state=status.state,
        why=status.why,
        version=status.version,
        tools=status.tools,
        tokens=tokens if status.state == "connected" else None,
        warnings=status.warnings,
    )


def _approval(config: Config, server: McpServer) -> str:
    if not server.project:
        return "own"
    if server.ourselves:
        return "-"
    if approved(config.home, server):
        return "approved"
    return "allowed" if config.settings.mcp.project == "allow" else "not approved"


def _lines(shown: Sequence[ServerRow], room: int | None) -> Iterator[str]:
    yield from tables.table(_COLUMNS, (_row(each) for each in shown), room)
    tools, tokens = sum(len(each.tools) for each in shown), sum(each.tokens or 0 for each in shown)
    if tools:
        yield ""
        yield from tables.wrapped(
            f"{counted(tools, 'tool')}: declared one by one they would take about {tokens:,} tokens of every request.",
            room,
        )
    for each in shown:
        remarks = [each.why] if each.why else []
        if each.approval == "not approved":
            remarks.append(f"What would be started or connected to: {each.definition}")
        for words in (*remarks, *each.warnings):
            yield ""
            yield from tables.wrapped(f"{each.name}: {words}", room, indent="  ")


def _row(each: ServerRow) -> tuple[object, ...]:
    is_counted = each.tokens is not None
    return (
        each.name,
        each.state,
        tables.count(len(each.tools)) if is_counted else "-",
        tables.count(each.tokens or 0) if is_counted else "-",
        each.approval,
        each.origin,
    )


def decide(name: str, *, allow: bool) -> int:
    """Approve a server that this workspace names, or take that back. What it starts is shown first."""
    config, servers = configured()
    server = servers.get(name)
    if server is None:
        raise HoldfastError(_unknown(name, list(servers)))
    if not server.project:
        raise HoldfastError(
            f"{printable(name)} is named by {printable(server.origin)}, which is your own file: it needs no approval"
        )
    if server.ourselves:
        raise HoldfastError(f"{printable(name)} is Holdfast itself, which needs no approval: other clients use it")
    click.echo(f"{printable(name)}, named by {printable(server.origin)}:")
    click.echo(f"  {printable(server.definition)}")
    if not allow:
        changed = revoke(config.home, server)
        click.echo("It is no longer approved." if changed else "It was not approved.")
        return 0
    if _asks() and not click.confirm("May it be started, as you, whenever Holdfast works here?", err=True):
        click.echo("Nothing was changed.")
        return 1
    approve(config.home, server)
    click.echo("It is approved. A change of its definition asks again; --revoke takes this back.")
    return 0


def _asks() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _unknown(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"there is no MCP server {printable(name)!r}; did you mean {printable(close[0])!r}?"
    there = f"there are {', '.join(map(printable, names))}" if names else "none is configured here"
    return f"there is no MCP server {printable(name)!r}; {there}"
