"""Install the real clients that tests run, each into a directory of its own under `.clients`.

    python scripts/install_clients.py claude codex
    python scripts/install_clients.py --all

Versions are pinned here. A client that cannot be installed, without npm, without a network or on this version of
Python, is named with the reason and costs nothing but its tests, which are then skipped by name. What is there
already is left alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1] / ".clients"
TIMEOUT = 600
"""Seconds after which an installation is given up."""


class Client(NamedTuple):
    """One client: where it comes from, and exactly which."""

    source: str
    packages: tuple[str, ...]


CLIENTS = {
    "claude": Client("npm", ("@anthropic-ai/claude-code@2.1.325",)),
    "codex": Client("npm", ("@openai/codex@0.166.0",)),
    "opencode": Client("npm", ("opencode-ai@1.18.33",)),
    "pi": Client("npm", ("@mariozechner/pi-coding-agent@0.73.1",)),
    "gemini": Client("npm", ("@google/gemini-cli@0.61.0",)),
    "aider": Client("pip", ("aider-chat==0.86.2",)),
    "llm": Client("pip", ("llm==0.36", "llm-anthropic==0.30")),
    "pydantic-ai": Client("pip", ("pydantic-ai-slim[anthropic]==2.66.0",)),
    "openai-agents": Client("pip", ("openai-agents==0.24.0",)),
    "deepagents": Client("pip", ("deepagents==0.7.32", "langchain-anthropic==1.7.7")),
}


class Failed(Exception):
    """Why a client is not there."""


def run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{Path(command[0]).name} took longer than {TIMEOUT} seconds") from error
    if done.returncode != 0:
        said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        wrong = [line for line in said if "error" in line.lower()] or said[-1:] or [f"exit code {done.returncode}"]
        raise Failed(f"{Path(command[0]).name}: {wrong[-1][:200]}")


def install(client: Client, place: Path) -> None:
    """Put a client into an empty directory."""
    if client.source == "npm":
        npm = shutil.which("npm")
        if npm is None:
            raise Failed("there is no npm")
        quiet = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
        run(npm, "install", "--prefix", str(place), *quiet, *client.packages)
    else:
        run(sys.executable, "-m", "venv", str(place))
        pip = (str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, *client.packages)


def provide(name: str, root: Path = ROOT) -> str:
    """See that a client is there; how that went, in a few words."""
    client = CLIENTS[name]
    place = root / name if client.source == "npm" else root / f"py-{name}"
    pinned = " ".join(client.packages)
    ready = place / ".installed"
    if ready.is_file() and ready.read_text("utf-8") == pinned:
        return f"{pinned} is there"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        install(client, place)
    except (Failed, OSError) as error:
        shutil.rmtree(place, ignore_errors=True)
        return f"{pinned} could not be installed, its tests are skipped ({error})"
    ready.write_text(pinned, "utf-8")
    return f"{pinned} installed"


def main(arguments: list[str]) -> int:
    names = list(CLIENTS) if arguments == ["--all"] else arguments
    unknown = [name for name in names if name not in CLIENTS]
    if unknown or not names:
        print(f"usage: install_clients.py --all | NAME…   (known: {', '.join(CLIENTS)})", file=sys.stderr)
        return 2
    for name in names:
        said = provide(name)
        if not said.endswith("is there"):
            print(f"{name}: {said}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
