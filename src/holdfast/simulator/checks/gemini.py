"""Gemini: what `generateContent` refuses, in Google's error form."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import pairwise

import msgspec
from msgspec import Struct

from holdfast.records import encode_string
from holdfast.wire import Body, Unreadable, WireError, cache_parameters, obj, scan

from ..messages import HttpRequest
from .refusals import NOT_JSON, bearer, shape_of, wrong

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    529: "UNAVAILABLE",
}
GONE = WireError(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")

_NO_KEY = (
    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other "
    "form of API consumer identity to call this API."
)
_BOTH = (
    "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config.\n\n"
    "Proposed fix: move those values to CachedContent from GenerateContent request."
)
_COUNTS = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
_ROLES = (None, "", "user", "model", "function", "tool")
_FROZEN = ("systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config")
_path = re.compile(r"/(v[0-9a-z]+)/(?:models/)?([^/:]+):([A-Za-z]+)$").search


def unauthorised(call: HttpRequest, keys: Collection[str] | None) -> WireError | None:
    key = call.headers.get("x-goog-api-key") or call.query.get("key") or bearer(call)
    if not key:
        return WireError(403, "PERMISSION_DENIED", _NO_KEY)
    if wrong(key, keys):
        return WireError(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")
    return None


def error_body(error: WireError) -> bytes:
    inner = (
        ("code", b"%d" % error.status),
        ("message", encode_string(error.message)),
        ("status", encode_string(STATUSES.get(error.status, error.kind))),
    )
    return obj((("error", obj(inner)),))


def check(body: Body | Unreadable, call: HttpRequest) -> WireError | None:
    match = _path(call.path)
    version, model, method = match.groups() if match else ("v1beta", "", "generateContent")
    if isinstance(body, Unreadable):
        return unreadable(body.reason)
    if not known(model or body.model):
        return missing_model(model or body.model, version, method)
    problem = next(_wrong(body, method), None)
    return None if problem is None else invalid(problem)


def known(model: str) -> bool:
    return model.removeprefix("models/").startswith("gemini-")


def missing_model(model: str, version: str, method: str) -> WireError:
    text = (
        f"models/{model.removeprefix('models/')} is not found for API version {version}, or is not supported for "
        f"{method}. Call ListModels to see the list of available models and their supported methods."
    )
    return WireError(404, "NOT_FOUND", text)


class _Part(Struct, rename="camel"):
    function_call: object = None
    function_response: object = None


class _Content(Struct):
    role: str | None = None
    parts: list[_Part] | None = None


class _Contents(Struct):
    contents: list[_Content] | None = None


def _wrong(body: Body, method: str) -> Iterator[str]:
    if method == "countTokens" and "generateContentRequest" in body.members:
        return
    try:
        contents = scan.decode(body.raw, _Contents).contents
    except msgspec.ValidationError as error:
        yield unreadable(str(error)).message
        return
    if not contents:
        yield "* GenerateContentRequest.contents: contents is not specified\n"
    for index, content in enumerate(contents or []):
        if content.role not in _ROLES:
            yield "Please use a valid role: user, model."
        if not content.parts:
            yield f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty.\n"
    yield from _pairs(contents or [])
    if cache_parameters.read(body).cached_content is not None and any(name in body.members for name in _FROZEN):
        yield _BOTH


def _pairs(contents: list[_Content]) -> Iterator[str]:
    """A turn of calls is followed by a turn with as many responses; neighbours of one side are one turn."""
    turns: list[list[int]] = []  # calls, responses of each turn
    side = None
    for content in contents:
        if not turns or (content.role == "model") != side:
            turns.append([0, 0])
            side = content.role == "model"
        turns[-1][0] += sum(part.function_call is not None for part in content.parts or [])
        turns[-1][1] += sum(part.function_response is not None for part in content.parts or [])
    for turn, after in pairwise(turns):
        if turn[0] != after[1]:
            yield _COUNTS


def unreadable(reason: str) -> WireError:
    shape = None if reason.startswith(NOT_JSON) else shape_of(reason)
    if shape is None:
        return invalid(f"Invalid JSON payload received. {reason.removeprefix(NOT_JSON).removeprefix(': ')}")
    return invalid(f"Invalid value at '{shape.place}' (expected {shape.expected}, got {shape.got})")


def invalid(message: str) -> WireError:
    return WireError(400, "INVALID_ARGUMENT", message)
