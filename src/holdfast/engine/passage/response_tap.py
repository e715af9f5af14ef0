"""An answer as it passes: a copy of its bytes is unpacked and read for usage, its beginning and its end, and for why
it is a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.records import Usage
from holdfast.serving import encodings
from holdfast.wire import LONGEST_LINE, Dialect, StreamReport, Tap

from ..partial_usage import Partial
from .fail_open import log, quiet

TOO_MUCH = (400, 413)
"""How providers answer a request that does not fit into the model's context."""

MOST = 65_536
"""Bytes of a refusal that are read to see why it is one."""

Refused = Callable[[int, str], None]
"""Called with a refusal's status and the provider's text."""


class ResponseTap:
    """Observes one answer. `served` if the provider accepted the request, `streams` if its answer is an event stream.
    An unreadable answer has no `report`; nothing here raises."""

    status = 0
    served = False
    streams = False
    _refused: Refused | None = None
    _refusal: ProviderRefusal | None = None
    _decoder: encodings.Decoder | None = None
    _tap: Tap | None = None

    def head(
        self, dialect: Dialect, status: int, headers: Iterable[tuple[bytes, bytes]], refused: Refused | None
    ) -> None:
        """The head of the response is there. What was refused has changed nothing at the provider."""
        self.status = status
        self.served = 200 <= status < 300
        self._refused = refused
        if not self.served:
            if refused is not None and status in TOO_MUCH:
                self._refusal = ProviderRefusal(headers)
            return
        try:
            kind = encoding = b""
            for name, value in headers:  # their lengths tell nearly all others apart
                if len(name) == 12 and name.lower() == b"content-type":
                    kind = value
                elif len(name) == 16 and name.lower() == b"content-encoding":
                    encoding = value
            self.streams = kind.lower().startswith(b"text/event-stream")
            if encoding and (named := encodings.named(encoding.decode("latin-1"))):
                if named not in encodings.KNOWN:
                    return
                longest = None if self.streams else LONGEST_LINE  # of what is one line, the tap reads no more
                self._decoder = encodings.Decoder(named, longest)
            self._tap = dialect.tap()
        except Exception as error:  # noqa: BLE001
            log("answer", error)

    def feed(self, chunk: bytes) -> None:
        """A piece of the body."""
        if self._refusal is not None:
            self._refusal.feed(chunk)
        if self._tap is None:
            return
        try:
            self._tap.feed(chunk if self._decoder is None else self._decoder.feed(chunk))
        except Exception as error:  # noqa: BLE001
            log("feed", error)
            self._tap = None

    @property
    def begun(self) -> bool:
        """Whether an answer has begun, as far as can be seen."""
        return self._tap is None or self._tap.report.started or not self.streams

    @property
    def report(self) -> StreamReport | None:
        """The report so far."""
        return None if self._tap is None else self._tap.report

    def close(self) -> StreamReport | None:
        """The response is complete: return its report."""
        if self._refusal is not None:
            with quiet("refusal"):
                self._tell(self._refusal.text())
        if self._tap is None:
            return None
        try:
            return self._tap.close()
        except Exception as error:  # noqa: BLE001
            log("finish", error)
            return None

    def outcome(self, report: StreamReport | None) -> tuple[Usage | None, str]:
        """Return the usage of a finished response, or the error."""
        if not self.served:
            return None, f"HTTP {self.status}"
        if self._tap is None or report is None:
            return None, ""
        if report.error is not None:
            with quiet("refusal"):
                self._tell(report.error)
        if report.error is not None or not report.finished:
            return None, "an error in the stream" if report.error is not None else "no end of the stream"
        try:
            return self._tap.usage, ""
        except Exception as error:  # noqa: BLE001
            log("usage", error)
            return None, ""

    @property
    def usage(self) -> Usage | None:
        """The usage received from the provider so far."""
        try:
            return None if self._tap is None else self._tap.usage
        except Exception as error:  # noqa: BLE001
            log("usage", error)
            return None

    def broken_off(self) -> Partial | None:
        """Return the part received of an answer without an end; None if the provider failed before any output or usage,
        which is not billed."""
        try:
            report = StreamReport() if self._tap is None else self._tap.cut()
            usage = self.usage
            if report.error is not None and usage is None and not report.deltas:
                return None
            return Partial(usage, report.output())
        except Exception as error:  # noqa: BLE001
            log("cut", error)
            return Partial()

    def _tell(self, said: str) -> None:
        if self._refused is not None:
            self._refused(self.status, said)


class ProviderRefusal:
    """Collects the body of a provider's error response."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        encoding = next((value for name, value in headers if name.lower() == b"content-encoding"), b"")
        self._encoding = encoding.decode("latin-1")
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        if self._size < MOST:
            self._pieces.append(chunk)
            self._size += len(chunk)

    def text(self) -> str:
        return encodings.readable(b"".join(self._pieces), self._encoding, MOST).decode("utf-8", "replace")
