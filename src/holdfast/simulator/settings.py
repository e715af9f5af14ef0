"""What a request says about its answer, read from the members each dialect keeps it in. Never fails on odd values:
whether they are allowed is for the checks to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.facts import model as facts_of
from holdfast.wire import Body

from .messages import HttpRequest, ReplySettings


def settings(dialect: str, body: Body, call: HttpRequest | None = None) -> ReplySettings:
    """The settings in a body of this dialect; Gemini says in the call's path and query whether to stream, and how."""
    wanted = _READERS[dialect](body)
    if dialect == "gemini" and call is not None and call.path.endswith(":streamGenerateContent"):
        wanted = replace(wanted, stream=True, sse=call.query.get("alt") == "sse")
    return wanted


def _anthropic(body: Body) -> ReplySettings:
    thinking = _mapping(body, "thinking")
    return ReplySettings(
        thinking=thinking.get("type") in ("enabled", "adaptive"),
        limit=_whole(_member(body, "max_tokens")),
        stop_sequences=_texts(_member(body, "stop_sequences")),
        stream=_member(body, "stream") is True,
        show_thoughts=thinking.get("display") != "omitted",
    )


def _chat(body: Body) -> ReplySettings:
    """DeepSeek shows its thoughts; OpenAI only counts them."""
    facts = facts_of(body.model)
    deepseek = facts.provider == "deepseek"
    effort = _member(body, "reasoning_effort")
    thinking = effort not in (None, "none") or _mapping(body, "thinking").get("type") in ("enabled", "adaptive")
    reasoner = deepseek and facts.name == "deepseek-reasoner"
    limit = _whole(_member(body, "max_completion_tokens"))
    return ReplySettings(
        thinking=thinking or reasoner,
        limit=_whole(_member(body, "max_tokens")) if limit is None else limit,
        stop_sequences=_texts(_member(body, "stop")),
        stream=_member(body, "stream") is True,
        include_usage=_mapping(body, "stream_options").get("include_usage") is True,
        show_thoughts=deepseek,
    )


def _responses(body: Body) -> ReplySettings:
    reasoning = _mapping(body, "reasoning")
    return ReplySettings(
        thinking=bool(reasoning) and reasoning.get("effort") != "none",
        limit=_whole(_member(body, "max_output_tokens")),
        stream=_member(body, "stream") is True,
        show_thoughts=reasoning.get("summary") is not None,
        encrypted_thoughts="reasoning.encrypted_content" in _texts(_member(body, "include")),
    )


def _gemini(body: Body) -> ReplySettings:
    """Clients spell the members in camel case or with underscores; the API takes both."""
    config = _mapping(body, "generationConfig") or _mapping(body, "generation_config")
    thinking = config.get("thinkingConfig", config.get("thinking_config"))
    thinking = thinking if isinstance(thinking, dict) else {}
    show = thinking.get("includeThoughts", thinking.get("include_thoughts"))
    budget = thinking.get("thinkingBudget", thinking.get("thinking_budget"))
    return ReplySettings(
        thinking=bool(thinking) and budget != 0,
        limit=_whole(config.get("maxOutputTokens", config.get("max_output_tokens"))),
        stop_sequences=_texts(config.get("stopSequences", config.get("stop_sequences"))),
        show_thoughts=show is True,
    )


_READERS: dict[str, Callable[[Body], ReplySettings]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openrouter": _chat,
    "openai_responses": _responses,
    "gemini": _gemini,
}


def _member(body: Body, name: str) -> Any:
    raw = body.member(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _mapping(body: Body, name: str) -> dict[str, Any]:
    value = _member(body, name)
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _texts(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, str))
