"""What is looked at on this machine's disk: Python, configuration, home, store, keys, extras."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from holdfast.config import Config, notes
from holdfast.store import VERSIONS, check_ours, connect, schema_version, store_problem
from holdfast.wording import counted, printable

from .checks import CheckResult, State

LEAST_PYTHON = (3, 11)
LITTLE_DISK = 500_000_000
"""Bytes below which the disk is called nearly full."""

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY")
"""As `agent.providers` looks for them, whose import takes longer than all checks."""

WITHOUT = {
    "agent": "`holdfast chat` and the agent library have no tools, no search for skills and no colours",
    "mcp": "`holdfast mcp` and MCP servers do not run",
    "embeddings": "memory is searched by words only, not by meaning",
}
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def python() -> Iterator[CheckResult]:
    summary = f"Python {platform.python_version()} on {platform.system()}, SQLite {sqlite3.sqlite_version}"
    state = sys.version_info[:2] >= LEAST_PYTHON
    yield (
        CheckResult("ok", "python", summary)
        if state
        else CheckResult("problem", "python", summary, "install Python 3.11 or newer")
    )


def configuration(config: Config) -> Iterator[CheckResult]:
    if config.files:
        yield CheckResult("ok", "configuration", f"read {', '.join(config.files)}")
    else:
        yield CheckResult(
            "ok", "configuration", "no holdfast.toml: every value is the default", "`holdfast init` writes one"
        )
    if config.agents:
        names = ", ".join(printable(name) for name in config.agents)
        yield CheckResult(
            "ok", "configuration", f"settings of their own: {counted(len(config.agents), 'agent')} ({names})"
        )
    for agent in (None, *config.agents):
        for each, note in notes(config, agent):
            if each.rule.elsewhere:  # one file for all doors is as it should be
                continue
            prefix = f"agent {printable(agent)}: " if agent else ""
            state: State = "warning" if each.everywhere else "note"
            yield CheckResult(state, "configuration", f"{prefix}{note}", "change it, or remove the key")


def subscription_policy(config: Config) -> str:
    """What happens to requests of subscription logins (Claude, ChatGPT), which are not billed by the token."""
    if config.settings.gateway.subscriptions == "manage":
        handling = "planned and edited like all others"
    else:
        handling = "observed, not edited"
    return (
        f"requests of Claude and ChatGPT logins are {handling}; their dollars are at list price (gateway.subscriptions)"
    )


def subscriptions(config: Config) -> Iterator[CheckResult]:
    managed = config.settings.gateway.subscriptions == "manage"
    cure = "" if managed else 'gateway.subscriptions = "manage" lets Holdfast plan them'
    yield CheckResult("ok", "subscriptions", subscription_policy(config), cure)


_ELSEWHERE = "set HOLDFAST_HOME to a directory of yours"


def home(path: Path) -> Iterator[CheckResult]:
    where = printable(path)
    try:
        there = next(each for each in (path, *path.parents) if each.exists())
    except OSError as problem:
        yield CheckResult("problem", "home", f"{where} cannot be looked at ({problem.strerror})", _ELSEWHERE)
        return
    if there != path and path.is_symlink():
        yield CheckResult("problem", "home", f"{where} is a link that leads nowhere", f"remove it, or {_ELSEWHERE}")
        return
    if not there.is_dir():
        yield CheckResult("problem", "home", f"{printable(there)} is no directory", _ELSEWHERE)
        return
    if not os.access(there, (os.W_OK | os.X_OK) if there != path else (os.R_OK | os.W_OK | os.X_OK)):
        cannot = (
            "cannot be read and written by you" if there == path else f"cannot be made by you in {printable(there)}"
        )
        yield CheckResult("problem", "home", f"{where} {cannot}", f"mend owner and rights, or {_ELSEWHERE}")
    elif there == path and path.stat().st_mode & 0o077:
        finding = f"{where} is open to other users (mode {path.stat().st_mode & 0o777:03o}), and holds keys"
        yield CheckResult(
            "warning", "home", finding, f"the next `serve`, `run` or `chat` closes it if it is yours; or {_ELSEWHERE}"
        )
    elif there == path:
        yield CheckResult("ok", "home", where)
    else:
        yield CheckResult("ok", "home", f"{where} is not there yet; it is made when something is stored")
    free = shutil.disk_usage(there).free
    summary = f"{free / 1e9:,.1f} GB free on its disk"
    yield (
        CheckResult("ok", "disk", summary)
        if free >= LITTLE_DISK
        else CheckResult("warning", "disk", summary, "free some space")
    )


def store(config: Config) -> Iterator[CheckResult]:
    """Whether the database is there, ours, readable and writable; its size."""
    path = Path(unquote(config.settings.store.url.removeprefix("sqlite:///")))
    where = printable(path)
    try:
        is_there = path.exists()
    except OSError as problem:
        yield CheckResult(
            "problem", "store", f"{where} cannot be looked at ({problem.strerror})", "set store.url to another file"
        )
        return
    if not is_there:
        cure = "`holdfast run -- CLIENT` stores what goes through"
        yield CheckResult("ok", "store", f"nothing is stored yet in {where}", cure)
        return
    if not path.is_file():
        yield CheckResult("problem", "store", f"{where} is no file", "set store.url to another file")
        return
    try:
        connection = connect(path, busy_timeout=0.3, create=False)
        try:
            check_ours(connection, path)
            version = schema_version(connection)
            sessions = connection.execute("SELECT count(*) FROM sessions").fetchone()[0] if version else 0
        finally:
            connection.close()
    except sqlite3.Error as problem:
        raise store_problem(path, problem) from problem
    beside = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    size = sum(each.stat().st_size for each in (path, *beside) if each.exists())
    summary = f"{where}: {counted(sessions, 'session')}, {size / 1e6:,.1f} MB, schema {version}"
    yield CheckResult("ok", "store", summary)
    if version < len(VERSIONS):
        yield CheckResult(
            "note", "store", f"written by an older Holdfast (this one has schema {len(VERSIONS)})", _UPDATED
        )
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        yield CheckResult(
            "problem", "store", f"{where} cannot be written", "mend the rights of the file and its directory"
        )


_UPDATED = "it is brought up to date when it is next written to"


def keys(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """By name only: what they hold is nobody's business here."""
    names = [name for name in KEYS if environ.get(name, "").strip()]
    if names:
        yield CheckResult("ok", "keys", f"in the environment: {', '.join(names)}")
    else:
        cure = "`holdfast chat` needs one, or --simulate; clients bring their own"
        yield CheckResult("note", "keys", "no provider's key is in the environment", cure)


def extras() -> Iterator[CheckResult]:
    """What of the optional packages is not installed, and what is missing without it."""
    missing: dict[str, list[str]] = {name: [] for name in WITHOUT}
    for each in importlib.metadata.requires("holdfast") or ():
        extra, name = _EXTRA.search(each), _NAME.match(each)
        if extra is None or name is None or extra[1] not in missing:
            continue
        try:
            importlib.metadata.version(name[0])
        except importlib.metadata.PackageNotFoundError:
            missing[extra[1]].append(name[0])
    there = [each for each, lacking in missing.items() if not lacking]
    if there:
        yield CheckResult("ok", "extras", f"installed: {', '.join(there)}")
    for each, lacking in missing.items():
        if lacking:
            finding = f"{each} is not installed ({', '.join(lacking)}): {WITHOUT[each]}"
            yield CheckResult("note", "extras", finding, f"pip install 'holdfast[{each}]'")
