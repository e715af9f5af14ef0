"""A conversation in a terminal: finished blocks stay, and below them a few lines show what is going on.

Only these few are ever taken back, and they never reach above the screen: what has scrolled away is finished. Each
change is one write, so nothing flickers. Needs `rich`.
"""

from __future__ import annotations

import io
import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from holdfast.agent import Line, Turn
from holdfast.records import Message, ToolUse
from holdfast.tools import Answer

from .markdown import THEME, Growing, rendered
from .screen import Kind
from .words import Cleaner, call_line, call_words, clean, cost_lines, fitted, one_line, places

TAIL = 5
"""Lines of a running command's output that are shown at a time."""

_PAUSE_S = 0.05
"""Between two pictures; more where a picture takes long to make."""


class Terminal:
    """Writes to `out`, whose width and height are asked for at every picture."""

    def __init__(self, out: TextIO, *, colours: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock = out, clock
        self._console = Console(  # makes texts, and writes nowhere itself
            file=io.StringIO(),
            force_terminal=True,
            no_color=not colours,
            theme=THEME,
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._cleaner = Cleaner()
        self._text: Growing | None = None
        self._thoughts = ""
        self._writing = ""  # the tool whose call is on its way
        self._running: dict[str, tuple[ToolUse, deque[str]]] = {}
        self._waiting = ""
        self._since = 0.0
        self._lines: list[str] = []
        self._drawn_at, self._took = 0.0, 0.0
        self._dirty = False
        self._still = False  # somebody is being asked

    # What the model and its tools do

    def piece(self, kind: Kind, text: str) -> None:
        if kind == "thinking":
            self._thoughts = (self._thoughts + clean(text))[-2_000:]
        elif kind == "tool":
            self._writing = one_line(text)
        else:
            self._thoughts = ""
            self._take(self._cleaner.feed(text))
        self._soon()

    def answered(self, message: Message, line: Line) -> None:
        self._end_text()
        self._soon()

    def retrying(self, why: str, seconds: float) -> None:
        self._end_text()
        self.notice(f"{why.rstrip('.')}; sent again in {seconds:.1f} s")

    def calling(self, call: ToolUse) -> None:
        self._end_text()
        self._running[call.id] = (call, deque(maxlen=TAIL))
        self._draw()

    def output(self, call: str, text: str) -> None:
        if call not in self._running:
            return
        lines = self._running[call][1]
        for line in clean(text.replace("\r\n", "\n").replace("\r", "\n")).splitlines():
            if line.strip():
                lines.append(line.expandtabs())
        self._soon()

    def called(self, answer: Answer) -> None:
        self._still = False
        self._end_text()
        call, _ = self._running.pop(answer.result.tool_use_id, (None, None))
        upper, lower = call_line(call, answer, self._width - 2)
        name, gap, about = upper.partition("  ")
        style = "red" if answer.result.is_error else "green"
        self._above(
            [
                self._painted(Text.assemble(("• ", style), (name, "bold"), gap, about)),
                self._painted(Text(f"  {lower}", "dim")),
            ]
        )

    def notice(self, text: str) -> None:
        self._end_text()
        self._above([line for each in clean(text).splitlines() for line in self._wrapped(each, "dim")])

    # What the program does

    def begins(self, waiting: str) -> None:
        self._waiting, self._since = one_line(waiting), self._clock()
        self._draw()

    def over(self, turn: Turn | None) -> None:
        self._end_text()
        self._waiting, self._running, self._thoughts = "", {}, ""
        self.clear()
        self._still = False
        if turn is None:
            return
        if turn.problem:
            self.warn(turn.problem)
        elif turn.ended == "cancelled":
            self._above(self._wrapped("stopped", "dim"))
        if turn.line.calls:
            lines = cost_lines(turn.line, self._width, turn.delegated)
            self._above([*(self._painted(Text(line, "dim")) for line in lines), ""])

    def say(self, lines: Sequence[str]) -> None:
        self._end_text()
        self._above([part for line in lines for part in self._wrapped(clean(line), "")])

    def aside(self, lines: Sequence[str]) -> None:
        """Nothing is wrapped: what is asked about, and what is to be copied, must stay as it is."""
        self._end_text()
        self._above([clean(line) for line in lines])

    def warn(self, text: str) -> None:
        self._end_text()
        self._above([line for each in clean(text).splitlines() for line in self._wrapped(each, "red")])

    def clear(self) -> None:
        """Take the moving lines away until something moves again."""
        if self._lines:
            self._write(self._erased())
            self._lines = []
        self._dirty, self._still = False, True

    def tick(self) -> None:
        now = self._clock()
        if self._dirty or (self._waiting and self._text is None and now - self._drawn_at >= 1):
            self._soon()

    # The answer

    def _take(self, text: str) -> None:
        if self._text is None:
            self._text = Growing()
        for block in self._text.feed(text):
            self._block(block)

    def _end_text(self) -> None:
        rest = self._cleaner.close()
        if self._text is not None:
            growing, self._text = self._text, None
            self._block(growing.close() + rest)
        self._thoughts, self._writing = "", ""

    def _block(self, source: str) -> None:
        lines = rendered(source, self._console, self._width)
        if lines:
            self._above([*lines, ""])

    # The picture

    def _picture(self) -> list[str]:
        """The moving lines: as many as fit on the screen, and the newest of them."""
        if self._text is not None and self._text.rest.strip():
            return rendered(self._text.rest, self._console, self._width)[-self._height :]
        lines: list[str] = []
        for call, output in self._running.values():
            name, about = call_words(call)
            head = fitted(f"{name}  {about}".rstrip(), self._width - 2)
            lines += [self._painted(Text(f"  {head}", "bold"))]
            lines += [self._painted(Text(fitted(f"  | {line}", self._width), "dim")) for line in output]
        if self._thoughts and not self._running:
            thought = self._wrapped(one_line(self._thoughts), "dim italic")[-3:]
            lines += thought
        if self._waiting:
            lines += [self._painted(Text(fitted(self._status(), self._width), "dim"))]
        return lines[-self._height :]

    def _status(self) -> str:
        passed = int(self._clock() - self._since)
        doing = f"writing a call of {self._writing}" if self._writing else self._waiting
        return f"{doing} … {passed} s, Ctrl-C stops" if passed else f"{doing} …"

    def _soon(self) -> None:
        """Draw now, or at the next tick if a picture has just been drawn."""
        if self._clock() - self._drawn_at >= max(_PAUSE_S, 4 * self._took):
            self._draw()
        else:
            self._dirty = True

    def _draw(self) -> None:
        begun, self._still = self._clock(), False
        lines = self._picture()
        if lines != self._lines:
            self._write(self._erased() + "\n".join(lines))
            self._lines = lines
        self._dirty, self._drawn_at = False, self._clock()
        self._took = self._drawn_at - begun

    def _above(self, lines: Sequence[str]) -> None:
        """These stay; the moving lines go below them."""
        picture = self._picture() if (self._waiting or self._running) and not self._still else []
        self._write(self._erased() + "".join(f"{line}\n" for line in lines) + "\n".join(picture))
        self._lines, self._dirty = picture, False

    def _erased(self) -> str:
        if not self._lines:
            return ""
        up = f"\x1b[{len(self._lines) - 1}A" if len(self._lines) > 1 else ""
        return f"\r{up}\x1b[J"

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()

    @property
    def _width(self) -> int:
        return max(shutil.get_terminal_size().columns - 1, 10)  # a full line would move some cursors and not others

    @property
    def _height(self) -> int:
        return max(shutil.get_terminal_size().lines - 2, 1)

    def _wrapped(self, text: str, style: str) -> list[str]:
        if not style and places(text) <= self._width + 1:
            return [text]
        return self._painted(Text(text, style, overflow="fold")).split("\n")

    def _painted(self, text: Text) -> str:
        with self._console.capture() as caught:
            self._console.print(text, width=self._width, end="")
        return caught.get().rstrip("\n")
