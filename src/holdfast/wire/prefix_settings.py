"""The settings that a cached prefix depends on, as a body spells them."""

from __future__ import annotations

from holdfast.caches import rules
from holdfast.facts import ModelFacts

from .body import Body
from .raw_json import array_of, canon, obj, object_of, string_of

_BY_VALUE = {"thinking": ("type", "budget_tokens"), "tool_choice": ("type", "name", "disable_parallel_tool_use")}
"""Settings that count by these members alone, in whatever order they stand."""


def settings(body: Body, model: ModelFacts, *, images: bool, citations: bool) -> dict[str, bytes]:
    """The members that a cached prefix depends on, in canonical text, by the names the rules know them by."""
    found: dict[str, bytes] = {}
    for name in rules(model).affecting:
        member, _, inner = name.partition(".")
        value = body.member(member)
        if value is not None and inner:
            value = (object_of(value) or {}).get(inner)
        if value is not None and value != b"null":
            found[name] = _canonical(name, value)
    if images:
        found["images"] = b"true"
    if citations:
        found["citations"] = b"true"
    if "thinking" in found and _keeps_thinking(body):
        found["thinking.keep"] = b"all"
    return found


def _canonical(name: str, value: bytes) -> bytes:
    members = object_of(value) if name in _BY_VALUE else None
    if members is None:
        return canon(value)
    return obj((key, canon(members[key])) for key in _BY_VALUE[name] if key in members)


def _keeps_thinking(body: Body) -> bool:
    """Whether the client asks the provider to keep the thinking that older models would drop at a new turn."""
    edits = (object_of(body.member("context_management") or b"") or {}).get("edits", b"")
    asked = [object_of(edit) or {} for edit in array_of(edits) or ()]
    return any(
        (string_of(edit.get("type")) or "").startswith("clear_thinking_") and string_of(edit.get("keep")) == "all"
        for edit in asked
    )
