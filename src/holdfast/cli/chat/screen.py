"""Where a conversation is shown, and the plain implementation: answers on standard output, all else on standard error.

It is made for pipes, files and terminals without escape codes: nothing is ever overwritten, and standard output has
only what the model wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TextIO

from holdfast.agent import CostLine, Turn
from holdfast.records import Message, Text, ToolUse
from holdfast.tools import ToolAnswer

from .words import TextCleaner, call_line, call_words, clean, cost_line, one_line

MOST_OUTPUT = 20
"""Lines of a running command's output that are shown where nothing can be taken back."""

Kind = Literal["text", "thinking", "tool"]


class Screen(Protocol):
    """Shows what happens as it happens. The methods of `Watch`, and those for the program's own output."""

    def piece(self, kind: Kind, text: str) -> None: ...

    def answered(self, message: Message, line: CostLine) -> None: ...

    def retrying(self, why: str, seconds: float) -> None: ...

    def calling(self, call: ToolUse) -> None: ...

    def output(self, call: str, text: str) -> None: ...

    def called(self, answer: ToolAnswer) -> None: ...

    def notice(self, text: str) -> None: ...

    def begins(self, waiting: str) -> None:
        """Something begins that takes a while."""

    def over(self, turn: Turn | None) -> None:
        """It has ended, with this turn if it was one."""

    def say(self, lines: Sequence[str]) -> None:
        """Show output that the user has requested."""

    def aside(self, lines: Sequence[str]) -> None:
        """Show lines that are no answer: a question, or how to resume."""

    def warn(self, text: str) -> None:
        """What went wrong."""

    def clear(self) -> None:
        """Somebody is going to be asked: nothing may be left that moves."""

    def tick(self) -> None:
        """Time has passed."""


class PlainScreen:
    """Shows plain lines. `watched` if a person sees `aside`: running commands are shown there. `whole` if `out` is read
    only at the end: an answer is written when it is complete, so that one that broke off and was requested again is
    there only once."""

    def __init__(self, out: TextIO, aside: TextIO, *, watched: bool = False, whole: bool = False) -> None:
        self._out, self._aside, self._watched, self._whole = out, aside, watched, whole
        self._held: list[str] = []
        self._cleaner = TextCleaner()
        self._open = False
        self._said = False
        self._calls: dict[str, ToolUse] = {}
        self._shown: dict[str, int] = {}

    def piece(self, kind: Kind, text: str) -> None:
        if kind != "text":
            return
        if self._whole:
            self._held.append(text)
        else:
            self._write(text)

    def _write(self, text: str) -> None:
        text = self._cleaner.feed(text)
        if not text:
            return
        if not self._open and self._said:
            self._out.write("\n")
        self._out.write(text)
        self._out.flush()
        self._open, self._said = True, True
        self._ends = text.endswith("\n")

    def answered(self, message: Message, line: CostLine) -> None:
        if self._whole:  # what broke off before a fallback is no part of it
            self._held = [block.text for block in message.content if isinstance(block, Text)]
        self._release()
        self._end_text()

    def _release(self) -> None:
        """Write the buffered text."""
        held, self._held = "".join(self._held), []
        self._write(held)

    def retrying(self, why: str, seconds: float) -> None:
        self._held.clear()
        self._end_text()
        self.notice(f"{why.rstrip('.')}; sent again in {seconds:.1f} s")

    def calling(self, call: ToolUse) -> None:
        self._end_text()
        self._calls[call.id] = call
        if self._watched:
            name, about = call_words(call)
            self._beside(f"* {name}  {about}".rstrip())

    def output(self, call: str, text: str) -> None:
        if not self._watched:
            return
        for line in clean(text).splitlines():
            shown = self._shown[call] = self._shown.get(call, 0) + 1
            if shown <= MOST_OUTPUT:
                self._beside(f"  | {one_line(line)}")
            elif shown == MOST_OUTPUT + 1:
                self._beside("  | …")

    def called(self, answer: ToolAnswer) -> None:
        self._end_text()
        upper, lower = call_line(self._calls.pop(answer.result.tool_use_id, None), answer, None)
        self._shown.pop(answer.result.tool_use_id, None)
        self._beside(f"  {lower}" if self._watched else f"* {upper}: {lower}")

    def notice(self, text: str) -> None:
        self._end_text()
        for line in clean(text).splitlines():
            self._beside(f"- {line}")

    def begins(self, waiting: str) -> None:
        """Nothing moves here."""

    def over(self, turn: Turn | None) -> None:
        if turn is not None and turn.ended == "cancelled":
            self._release()
        self._held.clear()
        self._end_text()
        if turn is None:
            return
        if turn.problem:
            self.warn(turn.problem)
        elif turn.ended == "cancelled":
            self._beside("- stopped")
        if turn.line.calls:
            self._beside(cost_line(turn.line, turn.delegated))

    def say(self, lines: Sequence[str]) -> None:
        self._end_text()
        for line in lines:
            self._out.write(clean(line) + "\n")
        self._out.flush()

    def aside(self, lines: Sequence[str]) -> None:
        self._end_text()
        for line in lines:
            self._beside(clean(line))

    def warn(self, text: str) -> None:
        self._end_text()
        for line in clean(text).splitlines():
            self._beside(f"holdfast: {line}")

    def clear(self) -> None:
        self._end_text()

    def tick(self) -> None:
        """Nothing moves here."""

    def _end_text(self) -> None:
        rest = self._cleaner.close()
        if self._open:
            self._out.write(rest + ("" if self._ends and not rest else "\n"))
            self._out.flush()
            self._open = False

    def _beside(self, line: str) -> None:
        self._aside.write(line + "\n")
        self._aside.flush()
