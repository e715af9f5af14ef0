"""What a provider refuses before it looks at its cache, in the provider's order and with its words.

One file per provider. A check gets the parsed body and the call and says what is wrong with it, or None; members it
does not know are accepted. Knows no sockets, no clock and no cache state: whether a cached object lives is asked of
`contents`. `error_answer` puts what was found into the provider's form.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import NAMESPACE_OID, uuid5

from holdfast.facts import ModelFacts
from holdfast.records import encode_string
from holdfast.wire import DIALECTS, Body, Unreadable, WireError

from ..messages import HttpRequest, HttpResponse
from . import anthropic, gemini, openai
from .refusals import NOT_JSON, Refusal

__all__ = [
    "Refusal",
    "as_array",
    "check",
    "error_answer",
    "error_body",
    "id_headers",
    "is_text",
    "not_found",
    "organisation_headers",
    "provider_of",
    "unauthorised",
]


def check(
    dialect: str,
    body: Body | Unreadable,
    facts: ModelFacts | None,
    call: HttpRequest,
    *,
    keys: Collection[str] | None = None,
) -> WireError | None:
    """What the provider would answer instead of a response; None if it would accept the call.

    `facts` may be None where the body names no model. `keys` are those accepted; None accepts any.
    """
    refusal = unauthorised(dialect, call, keys)
    if refusal is not None:
        return refusal
    if isinstance(body, Body) and not is_text(body.raw):
        body = Unreadable(body.raw, f"{NOT_JSON}: it is not UTF-8")
    try:
        return _checked(dialect, body, facts, call)
    except RecursionError:  # a check may stand deeper on the stack than the parse that let the body pass
        return _checked(dialect, Unreadable(body.raw, f"{NOT_JSON}: it is nested too deeply"), facts, call)


def _checked(dialect: str, body: Body | Unreadable, facts: ModelFacts | None, call: HttpRequest) -> WireError | None:
    if dialect == "anthropic":
        return anthropic.check(body, facts, call)
    if dialect == "gemini":
        return gemini.check(body, call)
    return openai.check(dialect, body, facts)


def is_text(raw: bytes) -> bool:
    """Whether all of a body is UTF-8: a parse looks only at the strings it needs, and providers at every one."""
    try:
        return raw.isascii() or bool(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def unauthorised(dialect: str, call: HttpRequest, keys: Collection[str] | None = None) -> WireError | None:
    """The refusal of a call without a key, or with one that is not among `keys`; side calls are checked by it alone."""
    if dialect == "anthropic":
        return anthropic.unauthorised(call, keys)
    return gemini.unauthorised(call, keys) if dialect == "gemini" else openai.unauthorised(call, keys)


def error_body(dialect: str, error: WireError, request_id: str = "") -> bytes:
    """The body of an error in the provider's form."""
    if dialect == "anthropic":
        whole = DIALECTS["anthropic"].write_error(error)
        if isinstance(error, Refusal) and error.code:
            whole = whole[:-2] + b',"details":{"error_code":' + encode_string(error.code) + b"}}}"
        return whole[:-1] + b',"request_id":' + encode_string(request_id) + b"}" if request_id else whole
    if dialect == "gemini":
        return gemini.error_body(error)
    return openai.error_body(error)


def error_answer(dialect: str, error: WireError, call: HttpRequest, request_id: str = "") -> HttpResponse:
    """The whole response of an error. Gemini wraps it in an array where the stream would have been one."""
    body = error_body(dialect, error, request_id)
    if as_array(dialect, call):
        body = b"[" + body + b"]"
    return HttpResponse(error.status, (("content-type", "application/json"), *id_headers(dialect, request_id)), body)


def as_array(dialect: str, call: HttpRequest) -> bool:
    """Whether the answer is a stream in the form of one JSON array."""
    return dialect == "gemini" and call.path.endswith(":streamGenerateContent") and call.query.get("alt") != "sse"


def id_headers(dialect: str, request_id: str) -> tuple[tuple[str, str], ...]:
    """The header by which a provider names a request."""
    if not request_id or dialect == "gemini":
        return ()
    return (("request-id" if dialect == "anthropic" else "x-request-id", request_id),)


def organisation_headers(dialect: str, workspace: str) -> tuple[tuple[str, str], ...]:
    """Return the header that names the billed organisation."""
    if dialect == "gemini":
        return ()
    if dialect == "anthropic":
        return (("anthropic-organization-id", str(uuid5(NAMESPACE_OID, workspace))),)
    return (("openai-organization", f"org-{workspace}"),)


def provider_of(call: HttpRequest) -> str:
    """Return the dialect of a call with an unknown path, by the headers of the providers' clients."""
    if call.path.startswith("/v1beta") or "x-goog-api-key" in call.headers or "key" in call.query:
        return "gemini"
    if "anthropic-version" in call.headers or "x-api-key" in call.headers or "authorization" not in call.headers:
        return "anthropic"
    return "openai_chat"


def not_found(call: HttpRequest, request_id: str = "") -> HttpResponse:
    """Return the provider's response for an unknown path."""
    dialect = provider_of(call)
    kind, message = {
        "anthropic": ("not_found_error", "Not found"),
        "gemini": ("NOT_FOUND", f"{call.method} {call.path} was not found."),
    }.get(dialect, ("invalid_request_error", f"Invalid URL ({call.method} {call.path})"))
    return error_answer(dialect, WireError(404, kind, message), call, request_id)
