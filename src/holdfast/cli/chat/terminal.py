"""A conversation in a terminal: finished blocks stay, and a few lines below them show the current activity.

Only these few are ever redrawn, and they never reach above the screen: what has scrolled away is finished. Each change
is one write, so nothing flickers. Needs `rich`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import SegmentLines
from rich.text import Text

from holdfast.agent import CostLine, Turn
from holdfast.records import Message, ToolUse
from holdfast.tools import ToolAnswer

from .markdown import THEME, GrowingMarkdown, rendered
from .screen import Kind
from .words import TextCleaner, call_line, call_words, clean, cost_lines, one_line

TAIL = 5
"""Lines of a running command's output that are shown at a time."""

_PAUSE_S = 0.05
"""Between two pictures; more where a picture takes long to make."""


class TerminalScreen:
    """Draws on the terminal `out`, reading its size anew for every frame."""

    def __init__(self, out: TextIO, *, colours: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._console = Console(
            file=out,
            force_terminal=True,
            no_color=not colours,
            theme=THEME,
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._live: Live | None = None  # while something moves
        self._cleaner = TextCleaner()
        self._text: GrowingMarkdown | None = None
        self._thoughts = ""
        self._writing = ""  # the tool whose call is on its way
        self._running: dict[str, tuple[ToolUse, deque[str]]] = {}
        self._waiting = ""
        self._since = 0.0
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

    def answered(self, message: Message, line: CostLine) -> None:
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

    def called(self, answer: ToolAnswer) -> None:
        self._still = False
        self._end_text()
        call, _ = self._running.pop(answer.result.tool_use_id, (None, None))
        upper, lower = call_line(call, answer, self._console.width - 2)
        name, gap, about = upper.partition("  ")
        style = "red" if answer.result.is_error else "green"
        self._above(
            Text.assemble(("• ", style), (name, "bold"), gap, about, overflow="fold"),
            Text(f"  {lower}", "dim", overflow="fold"),
        )

    def notice(self, text: str) -> None:
        self._end_text()
        self._above(Text(clean(text), "dim", overflow="fold"))

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
            self._above(Text("stopped", "dim"))
        if turn.line.calls:
            lines = cost_lines(turn.line, self._console.width, turn.delegated)
            self._above(*(Text(line, "dim", overflow="fold") for line in lines), Text())

    def say(self, lines: Sequence[str]) -> None:
        self._end_text()
        self._above(*(Text(clean(line), overflow="fold") for line in lines))

    def aside(self, lines: Sequence[str]) -> None:
        """Show lines without wrapping, since they may be copied."""
        self._end_text()
        self.clear()
        self._console.print(Text("\n".join(clean(line) for line in lines)), soft_wrap=True)

    def warn(self, text: str) -> None:
        self._end_text()
        self._above(Text(clean(text), "red", overflow="fold"))

    def clear(self) -> None:
        """Take the moving lines away until something moves again."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._dirty, self._still = False, True

    def tick(self) -> None:
        now = self._clock()
        if self._dirty or (self._waiting and self._text is None and now - self._drawn_at >= 1):
            self._soon()

    # The answer

    def _take(self, text: str) -> None:
        if self._text is None:
            self._text = GrowingMarkdown()
        for block in self._text.feed(text):
            self._block(block)

    def _end_text(self) -> None:
        rest = self._cleaner.close()
        if self._text is not None:
            growing, self._text = self._text, None
            self._block(growing.close() + rest)
        self._thoughts, self._writing = "", ""

    def _block(self, source: str) -> None:
        lines = rendered(source, self._console)
        if lines:
            self._above(SegmentLines(lines, new_lines=True), Text())

    # The picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The moving lines: as many as fit on the screen, and the newest of them."""
        if self._text is not None and self._text.rest.strip():
            lines = rendered(self._text.rest, console)
        else:
            lines = console.render_lines(Group(*self._moving()), options, pad=False)
        yield SegmentLines(lines[-max(options.size.height - 2, 1) :], new_lines=True)

    def _moving(self) -> Iterator[RenderableType]:
        for call, output in self._running.values():
            name, about = call_words(call)
            yield Text(f"  {name}  {about}".rstrip(), "bold", no_wrap=True, overflow="ellipsis")
            for line in output:
                yield Text(f"  | {line}", "dim", no_wrap=True, overflow="ellipsis")
        if self._thoughts and not self._running:
            thoughts = Text(one_line(self._thoughts), "dim italic").wrap(self._console, self._console.width)
            yield from thoughts[-3:]
        if self._waiting:
            yield Text(self._status(), "dim", no_wrap=True, overflow="ellipsis")

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
        if not self._live_again() and self._live is not None:
            self._live.refresh()
        self._dirty, self._drawn_at = False, self._clock()
        self._took = self._drawn_at - begun

    def _live_again(self) -> bool:
        """Begin to show the moving lines where something moves and they are not there."""
        if self._live is not None or self._still or not (self._waiting or self._running):
            return False
        self._live = Live(
            self,
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="visible",
        )
        self._live.start(refresh=True)
        return True

    def _above(self, *lines: RenderableType) -> None:
        """These stay; the moving lines go below them."""
        self._live_again()
        self._console.print(Group(*lines))
        self._dirty = False
