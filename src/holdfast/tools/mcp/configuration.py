"""The configured MCP servers: those of `holdfast.toml`, then those of the workspace's `.mcp.json`; and the approved
ones.

`.mcp.json` is the format of other clients; unknown members are ignored. An unreadable file is an error; an invalid
server in it is not used, with a reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.config import (
    LONGEST_NAME,
    SERVER_KEYS,
    NotAllowedError,
    Settings,
    check,
    contradiction,
    is_name,
    mask,
    printable,
)
from holdfast.config.sections import DeclaredServer, McpSettings
from holdfast.errors import HoldfastError

from ..safe_files import write_private

FILE = ".mcp.json"
_LARGEST = 1_000_000
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
_KNOWN = ("command", "args", "env", "cwd", "url", "headers")
_SSE = (
    'it speaks the old SSE transport only, which is not supported; ask for its streamable HTTP address ("type": "http")'
)
_OURSELVES = "it is Holdfast itself, which would start itself for ever; other clients may use it"
APPROVALS_FILE = "mcp-approved.json"
_LARGEST_APPROVALS = 10_000_000

State = Literal["blocked", "starting", "connected", "waiting", "failed", "closed"]
"""`blocked` was never tried, `waiting` will be tried again, `failed` will not."""


class ConnectionLost(Exception):
    """The connection to a server is lost; the message is the reason, as part of a sentence."""


class McpServer(Struct, frozen=True, kw_only=True):
    """One server, ready to be started or connected to: `command` with what belongs to it, or `url` with `headers`."""

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
    origin: str = ""  # the place that names it
    project: bool = False  # named by a file of the workspace: needs the user's approval
    workspace: str = ""
    digest: str = ""  # of exactly the definition that is approved
    definition: str = ""  # what a user is shown of it, as it is written there
    blocked: str = ""  # why it is not used, as a sentence
    ourselves: bool = False  # Holdfast itself, which other clients may use

    def __repr__(self) -> str:
        """Variables, headers and arguments may hold secrets, and a value is easily printed."""
        return f"Server(name={self.name!r}, origin={self.origin!r}, definition={self.definition!r})"


class McpServerStatus(Struct, frozen=True, kw_only=True):
    """How a server is now."""

    server: str
    state: State
    why: str = ""  # in sentences, why it is not connected
    tools: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # what was left out
    version: str = ""  # name and version that the server gave itself


class _WrongError(Exception):
    """What is wrong with one server, as the end of a sentence."""


def servers(
    settings: Settings | McpSettings, workspace: Path, home: Path, environ: Mapping[str, str] | None = None
) -> dict[str, McpServer]:
    """Every server by name, also those that are not used: `blocked` says why. A HoldfastError for a bad `.mcp.json`."""
    environ = os.environ if environ is None else environ
    mcp = settings.mcp if isinstance(settings, Settings) else settings
    workspace = workspace.absolute()
    declarations: dict[str, tuple[DeclaredServer, str]] = {
        name: (declared, "") for name, declared in mcp.servers.items()
    }
    if mcp.project != "never":
        for name, entry in _project_file(workspace / FILE).items():
            declarations.setdefault(name, entry)
    return {
        name: _server(name, declared, wrong, mcp, workspace, home, environ)
        for name, (declared, wrong) in sorted(declarations.items())
    }


def _server(
    name: str,
    declared: DeclaredServer,
    wrong: str,
    mcp: McpSettings,
    workspace: Path,
    home: Path,
    environ: Mapping[str, str],
) -> McpServer:
    root = os.path.realpath(workspace)
    written = [getattr(declared, field) for field in (*_KNOWN, "read_only", "trust_hints")]
    server = McpServer(
        name=name,
        timeout_s=declared.timeout_s,
        start_timeout_s=declared.start_timeout_s,
        read_only=declared.read_only,
        trust_hints=declared.trust_hints,
        origin=declared.origin,
        project=declared.project,
        workspace=_as_text(root),
        digest=hashlib.sha256(msgspec.json.encode([_as_text(root), name, *written])).hexdigest(),
        definition=_definition(declared),
    )
    if not declared.enabled:
        return _blocked(server, "It is switched off.")
    if declared.project and mcp.project == "never":
        return _blocked(server, 'It is named by a file of the workspace, and mcp.project is "never".')
    if not wrong:
        try:
            server = _expanded(server, declared, workspace, environ)
        except _WrongError as problem:
            wrong = problem.args[0]
    if wrong:
        server = msgspec.structs.replace(server, ourselves=wrong is _OURSELVES)
        return _blocked(server, f"{server.origin}: server {printable(name)}: {wrong}.")
    if declared.project and mcp.project == "ask" and not approved(home, server):
        cure = f"look at what it starts, then run: holdfast mcp --approve {shlex.quote(name)}"
        return _blocked(server, f"It is named by a file of the workspace and not approved; {cure}")
    return server


def _as_text(path: str) -> str:
    """A path as a file can hold it; one that is no UTF-8 by the bytes that are none."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _blocked(server: McpServer, why: str) -> McpServer:
    return msgspec.structs.replace(server, blocked=why)


def _definition(declared: DeclaredServer) -> str:
    """Describe a server's command or address on one line. A workspace's server is shown completely, because the user
    approves it; the user's own is shown without possible secrets."""
    table = msgspec.to_builtins(declared) if declared.project else mask(declared)
    place = table.get("url") or shlex.join([table.get("command") or "", *table.get("args", ())])
    more = [
        f"{key} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key in ("cwd", "env", "headers", "read_only", "trust_hints")
        if (value := table.get(key))
    ]
    return printable(f"{place} ({'; '.join(more)})" if more else place)


def _expanded(server: McpServer, declared: DeclaredServer, workspace: Path, environ: Mapping[str, str]) -> McpServer:
    """The server with every `${VAR}` replaced."""

    def full(text: str) -> str:
        return _VARIABLE.sub(lambda match: _value(match, environ), text)

    command, url = declared.command, declared.url
    args = tuple(full(text) for text in declared.args)
    env = {key: full(text) for key, text in declared.env.items()}
    headers = {key: full(text) for key, text in declared.headers.items()}
    command = full(command) if command is not None else None
    url = full(url) if url is not None else None
    cwd = full(declared.cwd or "")
    if cwd == "~" or cwd.startswith("~/"):
        cwd = (environ.get("HOME") or "") + cwd[1:]
    if url is not None and not re.match(r"https?://[^\s/?#]", url):
        raise _WrongError("its url is no http:// or https:// address; correct it")
    if any(re.search(r"[\x00\r\n]", text) or not key.isprintable() for key, text in headers.items()):
        raise _WrongError("a header of it is not one line of text; correct it")
    if any("\x00" in text for text in (command or "", *args, *env, *env.values(), cwd)) or any(
        "=" in key for key in env
    ):
        raise _WrongError("a variable or an argument of it holds what no program can be given; correct it")
    if command is not None and _is_ourselves(command, args):
        raise _WrongError(_OURSELVES)
    return msgspec.structs.replace(
        server,
        command=command,
        args=args,
        env=env,
        cwd=str(workspace / cwd) if command is not None else None,
        url=url,
        headers=headers,
    )


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    name, default = match.groups()
    value = environ.get(name, "")
    if default is not None:
        return value or default
    if name not in environ:
        raise _WrongError(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
    return value


def _is_ourselves(command: str, args: tuple[str, ...]) -> bool:
    words = [command.replace("\\", "/").rpartition("/")[2], *args]
    return any(word == "holdfast" and next_word == "mcp" for word, next_word in pairwise(words))


def _project_file(path: Path) -> dict[str, tuple[DeclaredServer, str]]:
    """The servers that the workspace's `.mcp.json` names, each with what is wrong with it."""
    where = printable(path)
    text = _text(path, where)
    if text is None:
        return {}
    try:
        document = json.loads(text)
    except json.JSONDecodeError as problem:
        place = f"{where}:{problem.lineno}"
        raise HoldfastError(f"{place}: this is not valid JSON ({problem.msg}); mend that line") from problem
    except (ValueError, RecursionError) as problem:
        raise HoldfastError(f"{where}: this JSON cannot be read; mend or remove the file") from problem
    table = document.get("mcpServers", {}) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise HoldfastError(f'{where}: this file holds {{"mcpServers": {{NAME: {{…}}}}}}; mend or remove it')
    declarations: dict[str, tuple[DeclaredServer, str]] = {}
    for name, entry in table.items():
        if is_name(name):
            declarations[name] = _entry(entry, where)
        else:
            short = printable(name[:40]) or "?"
            wrong = f"its name has not 1 to {LONGEST_NAME} printable characters; give it another"
            declarations.setdefault(short, (DeclaredServer(origin=where, project=True), wrong))
    return declarations


def _text(path: Path, where: str) -> str | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise HoldfastError(f"{where}: this is not a regular file; remove or rename it")
        if status.st_size > _LARGEST:
            raise HoldfastError(f"{where}: the file is larger than 1 MB; it cannot be a list of servers")
        return path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as problem:
        raise HoldfastError(f"{where}: the file is not UTF-8 (byte {problem.start}); save it as UTF-8") from problem
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise HoldfastError(f"{where}: the file cannot be read ({reason}); mend or remove it") from problem


def _entry(entry: object, where: str) -> tuple[DeclaredServer, str]:
    nothing = DeclaredServer(origin=where, project=True)
    if not isinstance(entry, dict):
        return nothing, "it is no table; write a command or a url"
    values: dict[str, Any] = {}
    for key in _KNOWN:
        if entry.get(key) is not None:
            try:
                values[key] = check(SERVER_KEYS[key], entry[key])
            except NotAllowedError:
                return nothing, f"its {key} is not allowed; it must be {SERVER_KEYS[key].allowed}"
    kind = entry.get("type")
    if kind in _HTTP or (kind == "sse" and "url" in values) or "command" not in values:
        values = {key: value for key, value in values.items() if key in ("url", "headers")}
    else:
        values = {key: value for key, value in values.items() if key not in ("url", "headers")}
    enabled = entry.get("disabled") is not True and entry.get("enabled") is not False
    declared = DeclaredServer(**values, enabled=enabled, origin=where, project=True)
    return declared, _SSE if kind == "sse" else contradiction(values)


# What the user allowed


class _Approval(Struct, frozen=True):
    server: str
    workspace: str


class _Approved(Struct):
    """A file in HOLDFAST_HOME that only this user can read. It holds digests of definitions, never what they hold.

    A workspace may be a stranger's repository, so a change of one character in what is started asks again.
    """

    approved: dict[str, _Approval] = {}


def approved(home: Path, server: McpServer) -> bool:
    """Whether the user allowed exactly this definition. A file that cannot be read allows nothing."""
    try:
        return server.digest in _read_approvals(home).approved
    except HoldfastError:
        return False


def approve(home: Path, server: McpServer) -> None:
    """Allow this definition in its workspace from now on."""
    approvals = _read_approvals(home)
    approvals.approved[server.digest] = _Approval(server.name, server.workspace)
    _write_approvals(home, approvals)


def revoke(home: Path, server: McpServer) -> bool:
    """Take back what was allowed under this name in this workspace; whether there was anything."""
    approvals = _read_approvals(home)
    remaining = {
        digest: entry
        for digest, entry in approvals.approved.items()
        if digest != server.digest and (entry.server, entry.workspace) != (server.name, server.workspace)
    }
    if len(remaining) == len(approvals.approved):
        return False
    _write_approvals(home, _Approved(remaining))
    return True


def _read_approvals(home: Path) -> _Approved:
    path = home / APPROVALS_FILE
    try:
        if path.stat().st_size > _LARGEST_APPROVALS:
            raise HoldfastError(f"{path} is larger than 10 MB; remove it, and approve your servers again")
        return msgspec.json.decode(path.read_bytes(), type=_Approved)
    except FileNotFoundError:
        return _Approved()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as problem:
        reason = (problem.strerror if isinstance(problem, OSError) else None) or "it is damaged"
        raise HoldfastError(f"{path} cannot be read ({reason}); remove it, and approve your servers again") from problem


def _write_approvals(home: Path, approvals: _Approved) -> None:
    try:
        # HOLDFAST_HOME itself may be a symlink of the user's own.
        write_private(
            home.resolve(), {APPROVALS_FILE: msgspec.json.format(msgspec.json.encode(approvals), indent=1) + b"\n"}
        )
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise HoldfastError(
            f"{home / APPROVALS_FILE} cannot be written ({reason}); make its place writable"
        ) from problem
