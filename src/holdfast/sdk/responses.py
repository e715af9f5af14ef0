"""What the official SDKs give back, in our terms: usage, and the model's answer as a canonical message."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

import msgspec

from holdfast.errors import ArgumentError, HoldfastError, kind_of, wrong_argument
from holdfast.records import Message, Usage
from holdfast.wire import DIALECTS, AnswerReader

_USAGE = (
    "the usage of the answer, such as message.usage of the SDK, its dict, or a Usage; abandon() ends a call without"
)
_ANSWER = "an answer of the anthropic, openai or google-genai SDK, or its dict"
_COUNTS = {
    "anthropic": ("input_tokens", "output_tokens"),
    "openai_chat": ("prompt_tokens", "completion_tokens", "input_tokens"),
    "openai_responses": ("input_tokens", "output_tokens", "prompt_tokens"),
    "openrouter": ("prompt_tokens", "completion_tokens", "input_tokens"),
    "gemini": ("promptTokenCount", "totalTokenCount"),
}
"""Members of which a usage has at least one."""


def dialect_named(method: str, name: object) -> str:
    """The name of a dialect that there is; HoldfastError for any other."""
    if not isinstance(name, str):
        raise wrong_argument(f"{method}(dialect=…)", name, f"one of {', '.join(DIALECTS)}")
    if name in DIALECTS:
        return name
    plain_name = name.lower().replace("-", "_")
    near = [each for each in DIALECTS if plain_name and each.startswith(plain_name)]
    near = near or get_close_matches(plain_name, DIALECTS, n=1)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ArgumentError(f"{method} knows no dialect {name!r}; {hint}there are {', '.join(DIALECTS)}")


def message_of(answer: object, *, dialect: str | None = None) -> Message:
    """The model's answer as a canonical message: of an SDK's `Message`, `ChatCompletion`, `Response` or
    `GenerateContentResponse`, or of the same as a dict. `dialect` is recognised where it is not given."""
    members = _members("message_of", answer, _ANSWER)
    name = dialect_named("message_of", dialect) if dialect is not None else _dialect(members)
    if name is None:
        raise ArgumentError(f"message_of got {kind_of(answer)} that is no answer of a known form; give {_ANSWER}")
    reader = AnswerReader(name)
    reader.feed(msgspec.json.encode(members, enc_hook=plain))
    read = reader.close()
    if not read.message.content and not read.whole:
        raise HoldfastError(f"message_of found no answer in this ({read.error}); give {_ANSWER}")
    return read.message


def usage_of(value: object, *, dialect: str, method: str) -> Usage:
    """Usage as a provider of this dialect gives it: an SDK's object, a dict, or the whole answer."""
    if isinstance(value, Usage):
        return value
    members = _members(method, value, _USAGE)
    for name in ("usage", "usageMetadata", "usage_metadata"):
        if members.get(name) is not None:
            members = _members(method, members[name], _USAGE)
            break
    if dialect == "gemini":
        members = {_camel(name): count for name, count in members.items()}
    if not any(name in members for name in _COUNTS[dialect]):
        raise ArgumentError(f"{method} got {kind_of(value)} without the counts of {dialect}; give {_USAGE}")
    tap = DIALECTS[dialect].tap()
    answer = {"usageMetadata": members} if dialect == "gemini" else {"type": "message", "usage": members}
    tap.feed(msgspec.json.encode(answer, enc_hook=plain))
    tap.close()
    if tap.usage is None:
        raise ArgumentError(f"{method} cannot read {kind_of(value)} as usage of {dialect}; give {_USAGE}")
    return tap.usage


def plain(value: object) -> object:
    """An object of an SDK as plain values, as it would be sent; TypeError for anything else."""
    dump = getattr(value, "model_dump", None)
    if isinstance(value, type) or not callable(dump):
        if isinstance(value, Mapping):
            return dict(value)
        raise TypeError(f"{kind_of(value)} is no JSON")
    return dump(mode="json", by_alias=True, exclude_unset=True)


def _members(method: str, value: object, wanted: str) -> dict[str, object]:
    if not isinstance(value, dict):
        try:
            value = plain(value)
        except TypeError:
            raise wrong_argument(method, value, wanted) from None
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise wrong_argument(method, value, wanted)
    return value


def _dialect(members: Mapping[str, object]) -> str | None:
    if "candidates" in members or "promptFeedback" in members:
        return "gemini"
    if "choices" in members:
        return "openai_chat"
    if members.get("object") == "response" or isinstance(members.get("output"), list):
        return "openai_responses"
    return "anthropic" if members.get("type") == "message" or "stop_reason" in members else None


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
