"""`holdfast mcp`: explain, and the tools of all configured MCP servers, for other agents."""

from __future__ import annotations

import sys

import click

from holdfast.errors import HoldfastError

MISSING = "`holdfast mcp` needs the MCP SDK, which is not installed: pip install 'holdfast[mcp]'"


@click.command()
@click.option("--read-only", is_flag=True, help="Offer only tools that are declared read-only.")
@click.option("--list", "list_", is_flag=True, help="List the configured servers, connecting to each, and end.")
@click.option("--json", "json_", is_flag=True, help="With --list: print JSON.")
@click.option("--approve", metavar="NAME", help="Allow a server that this workspace names, and end.")
@click.option("--revoke", metavar="NAME", help="Take that back, and end.")
def command(read_only: bool, list_: bool, json_: bool, approve: str | None, revoke: str | None) -> int:
    """Offer explain, and the tools of your MCP servers, to other agents.

    This is an MCP server on standard input and output, which a client such as Claude Code or Codex starts by itself. It
    has three tools: `explain` says what broke the cache, `discover_tools` finds tools among all MCP servers that
    Holdfast is configured with, `call_tool` calls one of them. However many servers there are, the client's list of
    tools stays these three, so its own prompt cache keeps its prefix.

    Servers stand in [mcp.servers.NAME] of holdfast.toml or in .mcp.json of the current directory; those that the
    directory names are started only after --approve. Whether a call may be made is for the client to ask its user;
    --read-only leaves out all tools that `read_only` or `trust_hints` of their server does not name as such.

    \b
    Examples:
      claude mcp add holdfast -- holdfast mcp
      codex mcp add holdfast -- holdfast mcp --read-only
      holdfast mcp --list
      holdfast mcp --approve github
    \b
    In .mcp.json:
      {"mcpServers": {"holdfast": {"command": "holdfast", "args": ["mcp"]}}}
    """
    chosen = [name for name, is_set in (("--list", list_), ("--approve", approve), ("--revoke", revoke)) if is_set]
    if len(chosen) > 1:
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} are two things to do; choose one.")
    if json_ and not list_:
        raise click.UsageError("--json belongs to --list.")
    if approve is not None or revoke is not None:
        from .status import decide

        return decide(approve or revoke or "", allow=approve is not None)
    _check_installed()
    if list_:
        from .status import listing

        return listing(json_)
    from .server import serve
    from .tools import OtherServers

    if sys.stdin is not None and sys.stdin.isatty():
        click.echo("holdfast: an MCP client starts this command by itself; --help says how. Ctrl-C ends it.", err=True)
    return serve(OtherServers(read_only=read_only), read_only=read_only)


def _check_installed() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError as problem:
        raise HoldfastError(MISSING) from problem
