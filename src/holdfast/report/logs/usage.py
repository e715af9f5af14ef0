"""Usage as recorded in logs: as a provider reported it, in a response, or as another program counted it.

The form of the object decides how it counts, because logs are often written by something between client and provider:
Anthropic's counts are disjoint, those of OpenAI and Gemini include what was cached. If the form is ambiguous, the
request's dialect decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

from msgspec import Meta, Raw, Struct

from holdfast.facts import default
from holdfast.records import UNSPLIT, Usage, usage
from holdfast.wire import DIALECTS, Counts, anthropic_usage, count, counts_of, gemini_usage, number, openai_usage

from .members import (
    AT,
    INNER_RESPONSE,
    PREDICTED,
    RESPONSE,
    STATUS,
    TIER,
    USAGE,
    Members,
    bytes_of,
    first,
    members_of,
    moment,
    number_of,
)

Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A number of tokens as a log may say it; no prompt is longer."""

_SAME = {
    "azure": "openai",
    "azure-cognitive-services": "openai",
    "azure-openai": "openai",
    "azure-openai-responses": "openai",
    "openai-codex": "openai",
    "amazon-bedrock": "bedrock",
    "google": "gemini",
    "google-antigravity": "gemini",
    "google-gemini-cli": "gemini",
    "google-generative-ai": "gemini",
    "google-vertex": "gemini",
    "google-vertex-anthropic": "anthropic",
}
_WRITTEN = {"openai": "30m"}
"""Providers whose written tokens have one lifetime."""


@lru_cache(maxsize=1024)
def named(provider: str, model: str) -> str:
    """Return `provider:name` for a known provider; else the name alone, from which the provider is derived."""
    known_provider = _SAME.get(provider.lower(), provider.lower())
    if not model or known_provider not in default().providers():
        return model
    return f"{known_provider}:{model}"


@lru_cache(maxsize=1024)
def write_ttl(model: str) -> str:
    """The lifetime of what a model's request has written, where the log has only the sum."""
    return _WRITTEN.get(default().model(model).provider, UNSPLIT)


def usage_of(model: str, *, input: int, read: int, written: int, output: int) -> Usage:
    """Disjoint counts as a usage; written tokens with the lifetime they must have had."""
    writes = ((write_ttl(model), written),) if written else ()
    return Usage(input=input, read=read, writes=writes, output=output)


def seconds(text: str | None) -> float | None:
    """Seconds since 1970 of a date in ISO form; None where it is none. Times without a zone are UTC."""
    if not text:
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


_OWN = ("read", "write_5m", "write_1h", "writes", "written")
_TTLS = {"write_5m": "5m", "write_1h": "1h", "write_30m": "30m", "written": UNSPLIT}
_ANTHROPIC = ("cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation")
_GEMINI = {
    "prompt_token_count": "promptTokenCount",
    "cached_content_token_count": "cachedContentTokenCount",
    "candidates_token_count": "candidatesTokenCount",
    "thoughts_token_count": "thoughtsTokenCount",
    "tool_use_prompt_token_count": "toolUsePromptTokenCount",
}
"""As Google's Python SDK spells them, and as they are sent."""
_FAILED = 400
_LONGEST_TIER = 32

AUTO = "auto"
"""The service tier of a request that leaves the choice to the provider: it does not say which one was billed."""


class LoggedAnswer(Struct):
    """The answer recorded in a line. `failed` if it was an error, which is not billed."""

    usage: Usage | None = None
    response_id: str | None = None
    model: str = ""
    at: float | None = None
    failed: bool = False
    tier: str = ""


def answer_of(members: Members, dialect: str) -> LoggedAnswer:
    """Return the answer of a line: usage of its own comes first, then a response's, then a predicted one."""
    answer = LoggedAnswer(failed=_failed(members))
    answer.usage = _usage(first(members, USAGE), dialect)
    answer.tier = _told_tier(members)
    response = bytes_of(first(members, RESPONSE), "replace")
    if response is not None:
        _read(response, dialect, answer)
    if answer.usage is None:
        answer.usage = _usage(first(members, PREDICTED), dialect)
    return answer


def _read(response: bytes, dialect: str, answer: LoggedAnswer) -> None:
    """A response: the object, its text, the events of a stream, or any of them inside what was written down of it."""
    inner = members_of(response)
    if inner is not None:
        answer.failed = answer.failed or _failed(inner)
        answer.at = moment(first(inner, AT))
        answer.tier = answer.tier or _told_tier(inner)
        if answer.usage is None:
            answer.usage = _usage(first(inner, USAGE), dialect)
        wrapped = None if "choices" in inner or "type" in inner else bytes_of(first(inner, INNER_RESPONSE), "replace")
        if wrapped is not None and wrapped[:1] != b"[":  # a list is Anthropic's content
            response = wrapped
    tap = DIALECTS[dialect].tap()
    tap.feed(response)
    report = tap.close()
    answer.response_id, answer.model = report.response_id, report.model or ""
    if answer.usage is None and report.counts:
        answer.usage = billed(report.counts, dialect)


def tier_of(counts: Counts) -> str:
    """The service tier that a usage object names, as Anthropic's do."""
    said = counts.get("service_tier")
    tier = said[:_LONGEST_TIER].lower() if isinstance(said, str) else ""
    return "" if tier == AUTO else tier


def _told_tier(members: Members) -> str:
    """The service tier that a line or a response names, itself or in its usage."""
    said = first(members, TIER)
    counts = None if said is None else counts_of(b'{"service_tier":%b}' % bytes(said))
    if counts and (tier := tier_of(counts)):
        return tier
    raw = first(members, USAGE)
    counts = None if raw is None else counts_of(bytes(raw))
    return "" if counts is None else tier_of(counts)


def _failed(members: Members) -> bool:
    status = number_of(first(members, STATUS))
    return status is not None and status >= _FAILED


def _usage(raw: bytes | Raw | None, dialect: str) -> Usage | None:
    counts = None if raw is None else counts_of(bytes(raw))
    return None if counts is None else billed(counts, dialect)


def billed(counts: Counts, dialect: str) -> Usage | None:
    """Disjoint counts from a usage object of any known form; None where it is none."""
    if any(name in counts for name in _OWN):
        return _own(counts)
    if any(name in counts for name in (*_GEMINI, *_GEMINI.values())):
        return gemini_usage({_GEMINI.get(name, name): value for name, value in counts.items()})
    if "prompt_tokens" in counts:
        return _prompt_tokens(counts, dialect)
    if isinstance(counts.get("input_token_details"), dict):
        return _langchain(counts)
    if "input_tokens" not in counts and not any(name in counts for name in _ANTHROPIC):
        return None
    if isinstance(counts.get("input_tokens_details"), dict):
        return openai_usage(counts)
    if dialect == "anthropic" or any(name in counts for name in _ANTHROPIC):
        return anthropic_usage(counts)
    return openai_usage(counts)


def _own(counts: Counts) -> Usage:
    """As this project writes it: disjoint already, writes by lifetime."""
    writes = {ttl: count(counts, name) for name, ttl in _TTLS.items() if name != "written"}
    listed = counts.get("writes")
    pairs = listed.items() if isinstance(listed, dict) else listed if isinstance(listed, list) else ()
    for pair in pairs:
        if isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str):
            writes[pair[0]] = writes.get(pair[0], 0) + number(pair[1])
    if not any(writes.values()):
        writes[UNSPLIT] = count(counts, "written")
    return usage(
        input=count(counts, "input"), read=count(counts, "read"), output=count(counts, "output"), writes=writes
    )


def _prompt_tokens(counts: Counts, dialect: str) -> Usage:
    """OpenAI's form. LiteLLM adds Anthropic's counts to it: they are parts of the prompt's then."""
    if not any(count(counts, name) for name in _ANTHROPIC[:2]):
        tap = DIALECTS[dialect if dialect in ("openai_chat", "openrouter") else "openai_chat"].tap()
        tap.report.counts = counts
        return tap.usage or Usage()
    prompt, read = count(counts, "prompt_tokens"), count(counts, _ANTHROPIC[0])
    split = counts.get("cache_creation")
    apart: Mapping[str, object] = split if isinstance(split, dict) else {}
    cached = anthropic_usage({**{name: counts.get(name) for name in _ANTHROPIC}, "cache_creation": dict(apart)})
    plain = prompt - read - cached.written
    return usage(
        input=plain if plain >= 0 else prompt,  # earlier versions counted it apart
        read=read,
        output=count(counts, "completion_tokens"),
        writes=dict(cached.writes),
    )


def _langchain(counts: Counts) -> Usage:
    """LangChain's `usage_metadata`: all of the prompt, and what of it was read and written."""
    details = "input_token_details"
    prompt, read = count(counts, "input_tokens"), count(counts, details, "cache_read")
    short, long = (count(counts, details, f"ephemeral_{ttl}_input_tokens") for ttl in ("5m", "1h"))
    writes = {"5m": short, "1h": long, UNSPLIT: 0 if short or long else count(counts, details, "cache_creation")}
    plain = max(0, prompt - read - sum(writes.values()))
    return usage(input=plain, read=min(read, prompt), output=count(counts, "output_tokens"), writes=writes)
