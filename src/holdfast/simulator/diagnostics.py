"""What a response says of the request it was asked to compare itself with, in the provider's own shape."""

from __future__ import annotations

import msgspec

from holdfast.caches import Divergence, diagnose
from holdfast.facts import ModelFacts
from holdfast.wire import Body, Reading, object_of, string_of

from .journal import Recent

_SETTINGS = {
    "text.format": "text_format_changed",
    "response_format": "text_format_changed",
    "reasoning.effort": "reasoning_effort_changed",
    "reasoning_effort": "reasoning_effort_changed",
    "text.verbosity": "verbosity_changed",
    "verbosity": "verbosity_changed",
    "service_tier": "service_tier_changed",
}


class Fingerprints:
    """Earlier requests by the id of their response; only those that asked for it are kept."""

    def __init__(self, keep: int) -> None:
        self._kept: Recent[Reading] = Recent(keep)

    def compare(self, body: Body, reading: Reading, model: ModelFacts, id: str) -> dict[str, bytes]:
        """Members to add to the response."""
        if not model.diagnostics:
            return {}
        if body.dialect == "anthropic" and (options := object_of(body.member("diagnostics") or b"")) is not None:
            previous = string_of(options.get("previous_message_id"))
            divergence = self._divergence(reading, previous) if previous is not None else None
            self._kept.put(id, reading)
            return {"diagnostics": b"null" if divergence is None else _anthropic(divergence)}
        if body.dialect == "openai_responses":
            self._kept.put(id, reading)
            options = object_of(body.member("prompt_cache_options") or b"") or {}
            if (previous := string_of(options.get("comparison_response_id"))) is not None:
                return {"prompt_cache_diagnostics": self._openai(reading, previous)}
        return {}

    def _divergence(self, reading: Reading, previous: str) -> Divergence | None:
        earlier = self._kept.get(previous)
        divergence = diagnose(None if earlier is None else earlier.prompt, reading.prompt)
        if earlier is not None and earlier.settings.get("speed") != reading.settings.get("speed"):
            return Divergence("model_changed", earlier.prompt.tokens)
        return divergence

    def _openai(self, reading: Reading, previous: str) -> bytes:
        earlier = self._kept.get(previous)
        if earlier is None:
            return b'{"type":"comparison_response_not_found"}'
        reason = _openai_reason(earlier, reading)
        if reason is None:
            return b'{"type":"cache_hit"}'
        divergence = diagnose(earlier.prompt, reading.prompt)
        missed = earlier.prompt.tokens if divergence is None or not divergence.missed else divergence.missed
        members = {
            "type": "cache_miss",
            "reason": reason,
            "cache_missed_tokens": missed,
            "comparison_reusable_tokens": earlier.prompt.tokens - missed,
        }
        return msgspec.json.encode(members)


def _anthropic(divergence: Divergence) -> bytes:
    reason: dict[str, str | int] = {"type": divergence.reason}
    if divergence.reason.endswith("_changed"):
        reason["cache_missed_input_tokens"] = divergence.missed
    return msgspec.json.encode({"cache_miss_reason": reason})


def _openai_reason(earlier: Reading, now: Reading) -> str | None:
    """The first of the provider's reasons that applies; None if the earlier prompt could be reused whole."""
    if earlier.prompt.model != now.prompt.model:
        return "model_changed"
    if earlier.prompt.route != now.prompt.route:
        return "prompt_cache_key_changed"
    for name, reason in _SETTINGS.items():
        if earlier.settings.get(name) != now.settings.get(name):
            return reason
    divergence = diagnose(earlier.prompt, now.prompt)
    if divergence is None:
        return None
    return "tools_changed" if divergence.reason == "tools_changed" else "input_changed"
