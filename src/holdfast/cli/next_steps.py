"""The output of `holdfast` alone: what to do next, in order of effort, as it fits this machine.

Checks whether a few files exist and imports nothing for it: it must be as quick as `--help`. The complete list of where
clients keep their logs is in `report.logs`; a test compares the two.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

LOGS = {
    "Claude Code": (
        ("CLAUDE_CONFIG_DIR", ".claude", "projects"),
        ("XDG_CONFIG_HOME", ".config", "claude/projects"),
    ),
    "Codex": (("CODEX_HOME", ".codex", "sessions"), ("CODEX_HOME", ".codex", "archived_sessions")),
    "pi": (
        ("PI_CODING_AGENT_SESSION_DIR", ".pi/agent/sessions", ""),
        ("PI_CODING_AGENT_DIR", ".pi/agent", "sessions"),
    ),
    "opencode": (
        ("XDG_DATA_HOME", ".local/share", "opencode/storage"),
        ("XDG_DATA_HOME", ".local/share", "opencode/opencode.db"),
    ),
}
"""For each client: a variable that names a directory, its default in the home directory, and the logs in it."""

Step = tuple[str, str]
_DEMO = ("holdfast demo", "see what it does: no key, no network")
_EXPLAIN = ("holdfast explain", "what broke the cache, from logs you already have")
_RUN = ("holdfast run -- claude", "a client through it, and the bill; any command")
_SERVE = ("holdfast serve", "a gateway for all clients, until Ctrl-C")
_CHAT = ("holdfast chat --simulate", "an agent whose prompt stays cached; no key")
_DOCTOR = ("holdfast doctor", "whether all is well here, and tips")
_HELP = ("holdfast --help", "every command, with an example")


def program() -> str:
    """How this program is called from here: a clone has it where no shell looks for it."""
    called = Path(sys.argv[0])
    return shlex.quote(str(called)) if called.name == "holdfast" and shutil.which("holdfast") is None else "holdfast"


def text(environ: Mapping[str, str], version: str, called: str = "holdfast") -> str:
    """The steps as they are printed; fits 24 lines of 80 columns or more."""
    clients, stored = logs(environ), has_store(environ)
    lines = [
        f"Holdfast {version}: keeps the prompt of an LLM agent byte-stable, so that the",
        "provider's cache is hit.",
        "",
    ]
    if stored:
        lines += _steps("What went through it:", _STORED)
    if clients:
        names = clients[0] if len(clients) == 1 else ", ".join(clients[:-1]) + f" and {clients[-1]}"
        lines += _steps(f"Logs of {names} are here:", (_EXPLAIN,))
    elif not stored:
        lines += _steps("First, in a minute:", (_DEMO, _EXPLAIN))
    rest = (_RUN, _SERVE, _CHAT) if stored or not clients else (_DEMO, _RUN, _SERVE, _CHAT)
    lines += _steps("Then:" if clients or not stored else "More:", rest)
    lines += _steps("At any time:", (_DOCTOR, _HELP))
    if called != "holdfast":
        lines += [
            f"No shell finds `holdfast` here: call it {called}, or first run",
            f"  . {shlex.quote(str(Path(*shlex.split(called)).with_name('activate')))}",
            "",
        ]
    return "\n".join(lines[:-1])


_STORED = (
    ("holdfast sessions", "what ran, what it cost, its hit rate"),
    ("holdfast breaks --since 7d", "what broke the cache, its cost, its cure"),
    ("holdfast bill --by day", "what was paid, and what without a cache"),
)


def _steps(title: str, steps: tuple[Step, ...]) -> list[str]:
    return [title, *(f"  {command:26}  {purpose}" for command, purpose in steps), ""]


def logs(environ: Mapping[str, str]) -> list[str]:
    """The clients that seem to have logs here."""
    home = _home(environ)
    clients = []
    for client, places in LOGS.items():
        for variable, default, inside in places:
            if _there((_named(environ, variable, home) or home / default).joinpath(inside)):
                clients.append(client)
                break
    return clients


def _there(path: Path) -> bool:
    """Return whether it exists; False if it cannot be accessed or the name is too long."""
    try:
        return path.exists()
    except OSError:
        return False


def has_store(environ: Mapping[str, str]) -> bool:
    """Return whether the store at the default place has data; stores that a file or variable names are not checked."""
    home = _home(environ)
    try:
        return ((_named(environ, "HOLDFAST_HOME", home) or home / ".holdfast") / "holdfast.db").stat().st_size > 0
    except OSError:
        return False


def _named(environ: Mapping[str, str], variable: str, home: Path) -> Path | None:
    value = environ.get(variable, "").strip()
    if value == "~" or value.startswith("~/"):
        return home / value[2:]
    return home / value if value else None


def _home(environ: Mapping[str, str]) -> Path:
    try:
        return Path(environ.get("HOME") or "~").expanduser()
    except RuntimeError:  # a user whom the system does not know
        return Path("/")
