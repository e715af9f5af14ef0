"""Where known clients keep their logs under a home directory, with the environment variables that move them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from holdfast.config import load
from holdfast.errors import HoldfastError


def places(home: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """(format, file or directory), whether or not it is there."""

    def named(variable: str, *default: str) -> Path:
        value = environ.get(variable, "").strip()
        if value == "~" or value.startswith("~/"):
            return home / value[2:]
        return home / value if value else home.joinpath(*default)  # an absolute value stands by itself

    if environ.get("CLAUDE_CONFIG_DIR", "").strip():
        yield "claude-code", named("CLAUDE_CONFIG_DIR") / "projects"
    else:
        yield "claude-code", home / ".claude" / "projects"
        yield "claude-code", named("XDG_CONFIG_HOME", ".config") / "claude" / "projects"
    codex = named("CODEX_HOME", ".codex")
    yield "codex", codex / "sessions"
    yield "codex", codex / "archived_sessions"
    pi = named("PI_CODING_AGENT_DIR", ".pi", "agent")
    sessions = environ.get("PI_CODING_AGENT_SESSION_DIR", "").strip()
    yield "pi", named("PI_CODING_AGENT_SESSION_DIR") if sessions else pi / "sessions"
    opencode = named("XDG_DATA_HOME", ".local", "share") / "opencode"
    yield "opencode", opencode / "storage"
    yield "opencode", opencode / (environ.get("OPENCODE_DB", "").strip() or "opencode.db")
    yield "store", _store(home, environ)


def _store(home: Path, environ: Mapping[str, str]) -> Path:
    """The gateway's database as the configuration of the home directory names it."""
    try:
        config = load(workspace=None, home=None, environ={**environ, "HOME": str(home)})
        return Path(unquote(config.settings.store.url.removeprefix("sqlite:///")))
    except HoldfastError:
        return home / ".holdfast" / "holdfast.db"
