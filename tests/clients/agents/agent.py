"""What is known of an agent: how it is found, set up and asked, what the simulated model makes it do."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.clients.programs import INSTALLED, Place, interpreter, program

FIRST = "Please make a note."
SECOND = "And what did I want?"
NOTED = "The note is written."
RECALLED = "You wanted to buy milk."
FILES = {"note.txt": "buy milk", "list.txt": "eggs"}

MANUAL = "A note is a file with one thought in it, and a list is a file with one thing on each line of it. " * 300
"""Instructions for agents that bring none of their own: long enough to be worth a place in a cache."""

PROGRAMS = Path(__file__).parent / "programs"


class Agent:
    """One agent. `everywhere`: it is part of `make test`; the others are run by `make test-clients`."""

    name: str
    title: str
    everywhere = False
    tool: str
    argument = "command"
    words: tuple[str, ...] = (NOTED, RECALLED)
    """Its last words of each run."""
    seed = 0
    sessions: int | None = 1
    """How many conversations the gateway should see in its runs; None where that cannot be known."""
    lanes = 1
    """How many lanes each of them should have."""

    def find(self) -> str:
        """The program to run; without it the test is skipped by name."""
        return program(self.name, self.title)

    @property
    def folder(self) -> str:
        """Where under `.clients` it was installed."""
        return self.name

    @property
    def version(self) -> str:
        """The version installed for these tests; empty where another one was found."""
        pinned = INSTALLED / self.folder / ".installed"
        return re.split("==|@", pinned.read_text("utf-8").split()[0])[-1] if pinned.is_file() else ""

    def script(self) -> str:
        """What the simulated model says, as rules in YAML."""
        return f"""
rules:
  - when: {{contains: make a note}}
    say: I write it down.
    call: {self.call("printf 'buy milk' > note.txt; ls")}
  - when: {{contains: what did I want}}
    call:
      - {self.call("wc -c note.txt")}
      - {self.call("printf 'eggs' > list.txt; cat note.txt")}
  - when: {{matches: 8 note.txt}}
    say: {RECALLED}
  - when: {{contains: buy milk}}
    say: {NOTED}
  - when: {{tool_result: {self.tool}}}
    call: {self.call("cat note.txt")}
"""

    def call(self, command: str) -> str:
        """A call of the agent's tool that runs a command, as a rule names it."""
        return json.dumps({"tool": self.tool, "input": self.input(command)})

    def input(self, command: str) -> dict[str, str]:
        """The arguments with which the agent's tool runs a command."""
        return {self.argument: command}

    def environment(self, place: Place, address: str) -> dict[str, str]:
        """Write what it needs into its home and give the variables it is started with."""
        raise NotImplementedError

    def turns(self, program: str, address: str) -> list[list[str]]:
        """The commands of the first run and of those that resume it."""
        raise NotImplementedError

    def said(self, printed: str) -> str:
        """The agent's last words in what it printed."""
        return (printed.strip().splitlines() or [""])[-1].strip()


class Library(Agent):
    """An agent library: a short program of ours uses it, run by the Python that has it."""

    tool = "run_command"
    key = "sk-dummy"

    @property
    def folder(self) -> str:
        return f"py-{self.name}"

    def find(self) -> str:
        return interpreter(self.name, self.title)

    def environment(self, place: Place, address: str) -> dict[str, str]:
        (place.home / "manual.txt").write_text(MANUAL, "utf-8")
        return place.environment(
            ADDRESS=address, KEY=self.key, MANUAL=str(place.home / "manual.txt"), HISTORY=str(place.home / "history")
        )

    def turns(self, program: str, address: str) -> list[list[str]]:
        session = str(PROGRAMS / f"{self.name.replace('-', '_')}_session.py")
        return [[program, session, FIRST], [program, session, SECOND]]
