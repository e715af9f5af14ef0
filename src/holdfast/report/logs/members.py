"""What people call things in logs of requests, and the values behind the names.

The tables are the whole list of names that are understood; of several that stand in one line the first counts. A value
of another type than expected is as good as absent. Headers are looked at and never kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from msgspec import Raw

from holdfast.records import decode_string
from holdfast.wire import object_at, scan

Members = dict[str, Raw]

NULL = Raw(b"null")

BODY = ("body", "request", "request_body", "requestBody", "payload", "params", "json", "input")
INNER_BODY = ("body", "json", "content", "payload")
"""Where the body stands in a request that was written down with its address and headers."""
MODEL = ("model", "model_name", "modelName")
DIALECT = ("dialect",)
AT = (
    *("at", "time", "timestamp", "ts", "created_at", "createdAt", "created", "start_time", "startTime"),
    *("started_at", "startedAt", "sent_at", "request_time", "date"),
)
FIRST_TOKEN = ("first_token_at", "first_token_time", "completion_start_time", "completionStartTime")
SESSION = (
    *("session", "session_id", "sessionId", "conversation", "conversation_id", "conversationId"),
    *("thread", "thread_id", "threadId", "chat_id", "chatId"),
)
RUN = ("run", "run_id", "runId", "trace", "trace_id", "traceId")
"""Names that many programs give to a single request: what continues another request belongs with it all the same."""
AGENT = ("agent", "agent_id", "agentId", "agent_name", "lane")
CLIENT = ("client",)
USER_AGENT = ("user_agent", "userAgent")
PATH = ("path", "url", "endpoint", "uri")
HEADERS = ("headers", "request_headers", "requestHeaders")
STATUS = ("status", "status_code", "statusCode")
TIER = ("service_tier", "serviceTier")
USAGE = ("usage", "usage_metadata", "usageMetadata", "token_usage")
RESPONSE = ("response", "response_body", "responseBody", "output", "completion", "result")
INNER_RESPONSE = ("body", "json", "content", "text")
ANSWER = ("choices", "candidates")
PREDICTED = ("predicted",)
PLAYED = ("strategy", "seed")
"""What a session was replayed with, where its usage was predicted: played twice it is two sessions."""

LOGS = frozenset(
    [
        *(*AT, *FIRST_TOKEN, *SESSION, *RUN, *AGENT, *CLIENT, *USER_AGENT, *PATH, *HEADERS, *STATUS),
        *(*USAGE, *RESPONSE, *ANSWER, *PREDICTED, *DIALECT, "method", "id", "object", "custom_id"),
    ]
)
"""Members that belong to the log if a line is the request's body with additions."""

_LONGEST_NAME = 200
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_text = msgspec.json.Decoder(str).decode
_FAILURES = (msgspec.DecodeError, RecursionError, UnicodeError)
_NUMERALS = (*(b"%d" % digit for digit in range(10)), b"-")
_BOM = b"\xef\xbb\xbf"


def read_line(text: bytes) -> Members | str:
    """The same for a line or a document from outside, of which nothing has been looked at."""
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return "not UTF-8"
    return read_object(text)


def read_object(text: bytes) -> Members | str:
    """The members of an object by name, each as it stands there; or why there are none."""
    text = text.removeprefix(_BOM)
    try:
        return _members(text)
    except msgspec.ValidationError:
        return "not an object"
    except RecursionError:
        return "nested too deeply to be read"
    except UnicodeError:
        return "not UTF-8"
    except msgspec.DecodeError as error:
        try:
            scan.decode(text, dict[str, Raw])  # also with half of a surrogate pair, as JavaScript leaves them
        except _FAILURES:
            return f"not JSON ({error})"
        object_ = object_at(text.strip(), 0)
        if object_ is None:
            return "not an object that can be read"
        return {name: Raw(value) for name, value in object_.items()}


def members_of(raw: bytes | Raw | None) -> Members | None:
    """The members of a value that is an object."""
    if begins(raw) != b"{":
        return None
    object_ = read_object(bytes(raw or b""))
    return None if isinstance(object_, str) else object_


def items_of(raw: bytes | Raw | None) -> list[Raw] | None:
    """The items of a value that is a list."""
    if raw is None or begins(raw) != b"[":
        return None
    try:
        return _list(raw)
    except _FAILURES:
        try:
            spans, complete = scan.walk_values(bytes(raw), 0)
        except (IndexError, RecursionError):
            return None
        return [Raw(bytes(raw)[start:end]) for start, end in spans] if complete else None


def begins(raw: bytes | Raw | None) -> bytes:
    """Return the first byte of a value, which shows its type."""
    return b"" if raw is None else bytes(memoryview(raw)[:1])


def first(members: Members, names: Iterable[str]) -> Raw | None:
    """The first of these that is there and not null."""
    for name in names:
        raw = members.get(name)
        if raw is not None and raw != NULL:
            return raw
    return None


def text_of(raw: bytes | Raw | None) -> str | None:
    """A value that is a text."""
    if raw is None or begins(raw) != b'"':
        return None
    try:
        return _text(raw)
    except _FAILURES:
        try:
            return decode_string(bytes(raw))
        except ValueError:
            return None


def bytes_of(raw: bytes | Raw | None, errors: str = "surrogatepass") -> bytes | None:
    """The bytes of a JSON value that was written down as it is or as a text."""
    if raw is None:
        return None
    if begins(raw) != b'"':
        return bytes(raw)
    text = text_of(raw)
    return None if text is None else text.encode("utf-8", errors)


def number_of(raw: bytes | Raw | None) -> float | None:
    if raw is None or begins(raw) not in _NUMERALS:
        return None
    try:
        value = msgspec.json.decode(raw, type=float)
    except _FAILURES:
        return None
    return value if abs(value) < 1e25 else None


def name_of(members: Members, names: Iterable[str]) -> str:
    """A name: a text or a number, fit to be shown; of an object its `id` or `name`. Empty where there is none."""
    for each in names:
        raw = members.get(each)
        if raw is None:
            continue
        inner = members_of(raw)
        if inner is not None:
            raw = first(inner, ("id", "name"))
        text = text_of(raw)
        if text is None and (number := number_of(raw)) is not None:
            text = f"{number:.15g}"
        if text:
            return shown(text)
    return ""


def shown(text: str) -> str:
    """A name from outside as it may stand in a report: short, on one line, without control characters."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else "\ufffd" for char in text[: _LONGEST_NAME + 1])
    text = text.strip()
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def moment(raw: bytes | Raw | None) -> float | None:
    """A time in seconds: a number of seconds, milli-, micro- or nanoseconds, told apart by their size, or a date."""
    number = number_of(raw)
    if number is None:
        text = text_of(raw)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            return _date(text)
    for limit, unit in ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9)):
        if 0 <= number < limit:
            return number / unit
    return None


def _date(text: str) -> float | None:
    try:
        date = datetime.fromisoformat(text.strip().replace(",", "."))
        return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def headers_of(raw: bytes | Raw | None) -> dict[str, str]:
    """Headers by lower-case name, of a repeated one the first; written as an object or as pairs."""
    pairs: list[tuple[str, Raw]] = []
    inner = members_of(raw)
    if inner is not None:
        pairs = list(inner.items())
    for item in items_of(raw) or ():
        pair = items_of(item)
        if pair is not None and len(pair) == 2 and (name := text_of(pair[0])) is not None:
            pairs.append((name, pair[1]))
        elif (header := members_of(item)) is not None and (name := text_of(header.get("name"))) is not None:
            pairs.append((name, header.get("value", NULL)))
    headers: dict[str, str] = {}
    for name, raw_value in pairs:
        listed = items_of(raw_value)
        value = text_of(listed[0] if listed else raw_value)
        if value is not None:
            headers.setdefault(name.lower(), value)
    return headers
