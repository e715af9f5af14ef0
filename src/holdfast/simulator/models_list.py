"""The models lists of the providers, from the facts: GET /v1/models in three dialects, GET /v1beta/models.

The headers select one of the three. A model's date is the date of its facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time
from typing import Any

import msgspec

from holdfast import facts
from holdfast.facts import ModelFacts
from holdfast.wire import DIALECTS, WireError

from .checks import provider_of
from .messages import HttpRequest, HttpResponse

JSON = ("content-type", "application/json")
_METHODS = ["generateContent", "countTokens", "createCachedContent"]


def answer(call: HttpRequest) -> HttpResponse | None:
    """The answer to a question for models; None if the call asks for something else."""
    root, found, name = call.path.rstrip("/").partition("/models")
    if call.method != "GET" or not found or (name and name[0] != "/"):
        return None
    name = name[1:]
    if root not in ("/v1", "/v1beta"):
        return None
    if root == "/v1beta" or "x-goog-api-key" in call.headers or "key" in call.query:
        return _gemini(call, name)
    if provider_of(call) == "gemini":
        return _gemini(call, name)
    return (
        _anthropic(call, name) if "anthropic-version" in call.headers or "x-api-key" in call.headers else _openai(name)
    )


def _anthropic(call: HttpRequest, name: str) -> HttpResponse:
    if name:
        model = facts.model(f"anthropic:{name}")
        if not model.known:
            return _missing("anthropic", WireError(404, "not_found_error", f"model: {name}"))
        return _found(_anthropic_model(model, name))
    models = [_anthropic_model(model, model.name) for model in facts.default().models("anthropic")]
    page, more = _paged(models, call)
    ends = (page[0]["id"], page[-1]["id"]) if page else (None, None)
    return _found({"data": page, "has_more": more, "first_id": ends[0], "last_id": ends[1]})


def _paged(models: list[dict[str, Any]], call: HttpRequest) -> tuple[list[dict[str, Any]], bool]:
    """A page after or before a model, and whether there is more in that direction."""
    ids = [model["id"] for model in models]
    size = _size(call.query.get("limit"), 20)
    before, after = call.query.get("before_id"), call.query.get("after_id")
    if before in ids:
        end = ids.index(before)
        return models[max(0, end - size) : end], end > size
    start = ids.index(after) + 1 if after in ids else 0
    return models[start : start + size], start + size < len(models)


def _anthropic_model(model: ModelFacts, name: str) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": _display(name),
        "created_at": _date(model).isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",
        "max_input_tokens": model.context_limit,
        "max_tokens": model.output_limit,
    }


def _openai(name: str) -> HttpResponse:
    """OpenAI's models and DeepSeek's, which the same API serves here."""
    if name:
        model = facts.model(name)
        if not model.known or model.provider not in ("openai", "deepseek"):
            message = f"The model '{name}' does not exist"
            return _missing("openai_chat", WireError(404, "model_not_found", message))
        return _found(_openai_model(model, name))
    table = facts.default()
    models = (*table.models("openai"), *table.models("deepseek"))
    return _found({"object": "list", "data": [_openai_model(model, model.name) for model in models]})


def _openai_model(model: ModelFacts, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(_date(model).timestamp()), "owned_by": model.provider}


def _gemini(call: HttpRequest, name: str) -> HttpResponse:
    if name:
        model = facts.model(f"gemini:{name}")
        if not model.known:
            message = f"models/{name} is not found for API version v1beta, or is not supported."
            return _missing("gemini", WireError(404, "NOT_FOUND", message))
        return _found(_gemini_model(model, name))
    models = facts.default().models("gemini")
    size, start = _size(call.query.get("pageSize"), 50), _size(call.query.get("pageToken"), 0, least=0)
    listed: dict[str, Any] = {"models": [_gemini_model(model, model.name) for model in models[start : start + size]]}
    return _found(listed | ({"nextPageToken": str(start + size)} if start + size < len(models) else {}))


def _gemini_model(model: ModelFacts, name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": name.removeprefix("gemini-").split("-")[0],
        "displayName": _display(name),
        "inputTokenLimit": model.context_limit,
        "outputTokenLimit": model.output_limit,
        "supportedGenerationMethods": _METHODS if model.marker else _METHODS[:2],
        "thinking": model.flags.thinking,
    }


def _size(text: str | None, default: int, *, least: int = 1) -> int:
    return min(max(int(text), least), 1000) if text is not None and text.isdecimal() and len(text) < 10 else default


def _display(name: str) -> str:
    """claude-opus-5-5 as people write it: Claude Opus 5.5."""
    words: list[str] = []
    for word in name.split("-"):
        if words and word.isdecimal() and len(word) < 3 and words[-1].isdecimal():
            words[-1] += f".{word}"
        else:
            words.append(word.capitalize())
    return " ".join(words)


def _date(model: ModelFacts) -> datetime:
    return datetime.combine(model.as_of, time(), UTC)


def _found(value: dict[str, Any] | Sequence[Any]) -> HttpResponse:
    return HttpResponse(200, (JSON,), msgspec.json.encode(value))


def _missing(dialect: str, error: WireError) -> HttpResponse:
    return HttpResponse(error.status, (JSON,), DIALECTS[dialect].write_error(error))
