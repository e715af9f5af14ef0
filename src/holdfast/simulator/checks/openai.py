"""OpenAI Chat Completions and Responses: the requests that are refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
from msgspec import Struct

from holdfast.facts import ModelFacts
from holdfast.records import encode_string
from holdfast.wire import DIALECTS, Body, Unreadable, WireError, array_of, obj, object_of, scan, string_of

from ..messages import HttpRequest
from .refusals import NOT_JSON, Refusal, bearer, shape_of, wrong

_LONGEST_KEY = 64  # characters, of models that nobody has described
_MARKER = "prompt_cache_breakpoint"
_OPTIONS = "prompt_cache_options"
_RETENTION = "prompt_cache_retention"
_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)
_BAD_JSON = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library "
    "correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"
)
_KINDS = {"array": "an array", "str": "a string", "object": "an object", "int": "an integer", "bool": "a boolean"}
_KINDS |= {"float": "a decimal", "null": "null"}


def unauthorised(call: HttpRequest, keys: Collection[str] | None) -> WireError | None:
    key = bearer(call) or call.headers.get("api-key", "")
    if not key:
        return Refusal(401, "invalid_request_error", _NO_KEY)
    if wrong(key, keys):
        message = f"Incorrect API key provided: {key[:3]}****. Check the key and try again."
        return Refusal(401, "invalid_request_error", message, code="invalid_api_key")
    return None


def error_body(error: WireError) -> bytes:
    """`{"error": {message, type, param, code}}`; the last two are null where a provider leaves them so."""
    param, code = (error.param, error.code) if isinstance(error, Refusal) else (None, None)
    inner = (
        ("message", encode_string(error.message)),
        ("type", encode_string(error.kind)),
        ("param", b"null" if param is None else encode_string(param)),
        ("code", b"null" if code is None else encode_string(code)),
    )
    return obj((("error", obj(inner)),))


def check(dialect: str, body: Body | Unreadable, facts: ModelFacts | None) -> WireError | None:
    if isinstance(body, Unreadable):
        return _unreadable(body.reason)
    wrongs = _chat(body) if dialect != "openai_responses" else _responses(body)
    return next(
        (refusal for part in (_model(body, dialect), _cache(body, dialect, facts), wrongs) for refusal in part), None
    )


def _model(body: Body, dialect: str) -> Iterator[Refusal]:
    if not body.model and dialect == "openai_responses":
        yield _missing("model")
    elif not body.model:
        yield _invalid("you must provide a model parameter")


def _cache(body: Body, dialect: str, facts: ModelFacts | None) -> Iterator[Refusal]:
    """The two generations answer 400 to each other's fields; a model nobody has described gets the benefit."""
    key = string_of(body.member("prompt_cache_key"))
    longest = (facts.limits.cache_key_chars if facts is not None else None) or _LONGEST_KEY
    if key is not None and len(key) > longest:
        yield _invalid(
            f"Invalid 'prompt_cache_key': string too long. Expected a string with maximum length {longest}, but got a "
            f"string with length {len(key)} instead.",
            "prompt_cache_key",
            "string_above_max_length",
        )
    is_known = facts is not None and facts.known
    if is_known and facts is not None and not facts.breakpoints and _is_set(body, _OPTIONS):
        yield _unsupported(_OPTIONS)
    if is_known and facts is not None and not facts.retention_field and _is_set(body, _RETENTION):
        yield _unsupported(_RETENTION)
    if scan.may_name(body.raw, _MARKER, 0, len(body.raw)):
        yield from _breakpoints(body, dialect, facts if is_known else None)


def _breakpoints(body: Body, dialect: str, facts: ModelFacts | None) -> Iterator[Refusal]:
    """Breakpoints stand on content parts, never on tools, and not at all on earlier models."""
    for index, tool in enumerate(array_of(body.member("tools") or b"[]") or []):
        members = object_of(tool) or {}
        inside = object_of(members.get("function", b"")) or {}
        place = next(
            (p for p, m in ((f"tools[{index}]", members), (f"tools[{index}].function", inside)) if _MARKER in m), ""
        )
        if place:
            yield _unknown(f"{place}.{_MARKER}")
    if _MARKER in body.members:
        yield _unknown(_MARKER)
    if facts is not None and not facts.breakpoints and DIALECTS[dialect].markers(body):
        yield _unsupported(_MARKER)


class _Call(Struct):
    id: str = ""


class _Message(Struct):
    role: str
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _Conversation(Struct):
    messages: list[_Message]


def _chat(body: Body) -> Iterator[Refusal]:
    if "messages" not in body.members:
        yield _missing("messages")
        return
    try:
        messages = scan.decode(body.raw, _Conversation).messages
    except msgspec.ValidationError as error:
        yield _unreadable(str(error))
        return
    if not messages:
        text = "Expected an array with minimum length 1, but got an empty array instead."
        yield _invalid(f"Invalid 'messages': empty array. {text}", "messages", "empty_array")
    pending: list[str] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            if not pending and (index == 0 or messages[index - 1].role != "tool"):
                text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                yield _invalid(f"Invalid parameter: {text}", f"messages.[{index}].role")
            pending = [call for call in pending if call != message.tool_call_id]
            continue
        if pending:
            yield _unanswered(pending)
        pending = [call.id for call in message.tool_calls or [] if message.role == "assistant"]
    if pending:
        yield _unanswered(pending)


class _Entry(Struct):
    type: str | None = None
    call_id: str | None = None
    role: object = None
    tools: object = None


class _Input(Struct):
    input: list[_Entry] | str | None = None


def _responses(body: Body) -> Iterator[Refusal]:
    try:
        input_ = scan.decode(body.raw, _Input).input
    except msgspec.ValidationError as error:
        yield _unreadable(str(error))
        return
    continued = _is_set(body, "previous_response_id") or _is_set(body, "conversation")
    if input_ is None and not continued and not _is_set(body, "prompt"):
        text = "One of 'input' or 'previous_response_id' or 'prompt' or 'conversation_id' must be provided."
        yield _invalid(text, None, "missing_required_parameter")
    items = input_ if isinstance(input_, list) else []
    yield from _late_tools(items)
    calls = [item.call_id for item in items if item.type in ("function_call", "custom_tool_call")]
    outputs = [item.call_id for item in items if item.type in ("function_call_output", "custom_tool_call_output")]
    for call in calls:
        if call not in outputs:
            yield _invalid(f"No tool output found for function call {call}.", "input")
    for output in outputs:
        if output not in calls and not continued:
            yield _invalid(f"No tool call found for function call output with call_id {output}.", "input")


def _late_tools(items: list[_Entry]) -> Iterator[Refusal]:
    """Further tools come from the developer alone."""
    for index, item in enumerate(items):
        if item.type != "additional_tools":
            continue
        if item.role != "developer":
            yield _invalid(
                f"Invalid value: '{item.role}'. Supported values are: 'developer'.",
                f"input[{index}].role",
                "invalid_value",
            )
        if not isinstance(item.tools, list):
            yield _missing(f"input[{index}].tools")


def _unanswered(calls: list[str]) -> Refusal:
    return _invalid(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(calls)}",
        "messages",
    )


def _unreadable(reason: str) -> Refusal:
    shape = None if reason.startswith(NOT_JSON) else shape_of(reason)
    if shape is None:
        return _invalid(_BAD_JSON)
    if shape.missing:
        return _missing(shape.place)
    expected = " or ".join(_KINDS.get(kind, kind) for kind in shape.expected.split(" | ") if kind != "null")
    text = f"expected {expected}, but got {_KINDS.get(shape.got, shape.got)} instead."
    return _invalid(f"Invalid type for '{shape.place}': {text}", shape.place, "invalid_type")


def _is_set(body: Body, name: str) -> bool:
    return body.member(name) not in (None, b"null")


def _missing(name: str) -> Refusal:
    return _invalid(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")


def _unknown(name: str) -> Refusal:
    return _invalid(f"Unknown parameter: '{name}'.", name, "unknown_parameter")


def _unsupported(name: str) -> Refusal:
    return _invalid(f"{name} is not supported on this model", name, "invalid_parameter")


def _invalid(message: str, param: str | None = None, code: str | None = None) -> Refusal:
    return Refusal(400, "invalid_request_error", message, param, code)
