"""Chats with a simulated model: what it says, and a chat in this process whose sides are read."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import pytest

from tests.cli.commands import Done, run

SCRIPT = """
delay: {first_token: 0, per_token: 0}
rules:
  - when: {tool_result: run_command}
    say: "It said {tool_result}"
  - when: {tool_result: write_file}
    say: "Then {tool_result}"
  - when: {contains: RUN-A-COMMAND}
    say: I shall run it.
    call: {tool: run_command, input: {command: "echo from the command"}}
  - when: {contains: RUN-FOR-LONG}
    call: {tool: run_command, input: {command: "echo begun; sleep 100"}}
  - when: {contains: RUN-UNTIL-TOLD}
    call: {tool: run_command, input: {command: "echo begun; cat gate"}}
  - when: {contains: RUN-STUBBORNLY}
    call: {tool: run_command, input: {command: "trap '' TERM INT; echo begun; while :; do sleep 1; done"}}
  - when: {contains: WRITE-A-FILE}
    call: {tool: write_file, input: {path: notes.txt, content: "one\\ntwo\\n"}}
  - when: {contains: CALL-NOTHING}
    call: {tool: no_such_tool}
  - when: {contains: SPEAK-TO-THE-TERMINAL}
    say: "a\\x1b[2Jb\\x07"
  - when: {contains: TALK-ON}
    say: This is a long story.
    tokens: 4000
    per_token: 0.01
  - when: {contains: SHOW-MARKDOWN}
    say: |
      # A title

      Some **bold** text and a Vec<String>.

      | Name | Value |
      |------|------:|
      | one  | 1     |
      | two  | 22    |

      ```python
      def f(x):
          return x + 1
      ```

      LIST
""".replace("      LIST\n", "".join(f"      - item {number}\n" for number in range(60)))

RESUMED = re.compile(r"holdfast chat (?:.* )?--resume (\w+)")


class Answer(Done):
    """What a chat wrote, and the session it is of."""

    @property
    def session(self) -> str:
        resumed = RESUMED.search(self.err)
        assert resumed is not None, self.err
        return resumed[1]


class Chatting:
    """`holdfast chat`, in this process and without a terminal."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self._monkeypatch = root, monkeypatch
        self.script = root / "script.yaml"
        self.script.write_text(SCRIPT, "utf-8")
        self.workspace = root / "work"
        self.workspace.mkdir()
        self.home = root / "home" / ".holdfast"
        monkeypatch.chdir(self.workspace)

    def __call__(self, *arguments: str, input: str | io.StringIO = "", simulate: bool = True) -> Answer:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(input) if isinstance(input, str) else input)
        simulated = ("--simulate", "--script", str(self.script)) if simulate else ()
        return Answer(*run("chat", *simulated, *arguments))

    def done(self, *arguments: str, input: str | io.StringIO = "", simulate: bool = True) -> Answer:
        """One that ends without a failure."""
        answer = self(*arguments, input=input, simulate=simulate)
        assert answer.code == 0, answer.err
        return answer

    @property
    def environ(self) -> dict[str, str]:
        """For a program: as here."""
        return dict(os.environ)

    @property
    def logs(self) -> list[Path]:
        return sorted((self.home / "sessions").glob("*.jsonl"))
