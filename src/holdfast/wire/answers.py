"""A provider's response as an answer: a canonical message, and pieces to show while it arrives.

The reader takes an event stream in any chunks, a plain JSON response or Gemini's array, and never raises. What cannot
be sent back is left out of the message, as defined in `answer_builder`.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.records import Message, NotJson, ToolUse, Usage, canonical_json

from . import scan
from .answer_builder import Piece, Stop
from .dialects import DIALECTS

_DONE = b"[DONE]"


class Unreachable(Exception):
    """No answer came, or it broke off; the text says which and why. Sending again may help."""


class Answer(Struct, frozen=True, kw_only=True):
    """A model's answer. `whole` if all of it arrived; `error` is the reason if not.

    The message of an incomplete answer has its complete blocks, and the text of the others. A message may be empty, and
    then cannot be sent back. A call whose input is not JSON has it as a JSON string, which no tool accepts.
    """

    message: Message
    stop: Stop
    usage: Usage | None
    id: str | None
    model: str | None
    error: str | None
    whole: bool


class AnswerReader:
    """Reads one response: `feed` it what comes, then `close` it. A response that is not streamed has no pieces."""

    def __init__(self, dialect: str) -> None:
        self._tap = DIALECTS[dialect].tap()
        self._tap.also(self._event)
        self._builder = DIALECTS[dialect].builder()
        self._pieces: list[Piece] = []
        self._unread = False
        self._answer: Answer | None = None

    @property
    def started(self) -> bool:
        """Whether the model has begun to answer."""
        return self._tap.report.started

    @property
    def usage(self) -> Usage | None:
        """The usage that the provider has reported so far."""
        return self._tap.usage

    @property
    def output(self) -> int:
        """The estimated tokens of the model's output so far."""
        return self._tap.report.output()

    def feed(self, chunk: bytes) -> list[Piece]:
        self._tap.feed(chunk)
        pieces, self._pieces = self._pieces, []
        return pieces

    def _event(self, data: bytes) -> None:
        try:
            text = scan.mended(canonical_json(data))
        except NotJson:
            self._unread = self._unread or data.strip() != _DONE
            return
        self._pieces += self._builder.event(text)

    def close(self) -> Answer:
        """The response has ended, or will not continue."""
        if self._answer is None:
            self._answer = self._read()
        return self._answer

    def _read(self) -> Answer:
        report, builder = self._tap.close(), self._builder
        error = report.error or builder.problem or self._missing(report.finished or builder.ended)
        message = builder.message(whole=error is None, id=report.response_id)
        stop, calls = builder.stop, any(isinstance(block, ToolUse) for block in message.content)
        if stop in ("end", "tools"):
            stop = "tools" if calls else "end"
        return Answer(
            message=message,
            stop=stop,
            usage=self._tap.usage,
            id=report.response_id,
            model=report.model,
            error=error,
            whole=error is None,
        )

    def _missing(self, ended: bool) -> str | None:
        if self._unread or self._tap.skipped_lines:
            return "a part of the answer cannot be read"
        if not ended:
            return "the answer broke off before its end" if self._builder.opened else "no answer came"
        return None if self._builder.opened else "the response holds no answer"
