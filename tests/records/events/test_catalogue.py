"""The catalogue is closed, typed, frozen, and keeps prompt text in private events."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from msgspec import inspect

from holdfast.records import BREAK_CAUSES, RESET_REASONS
from holdfast.records.events import CATALOGUE, Event, LoadReason
from holdfast.records.events.fields import SENSITIVITIES
from holdfast.records.events.sessions import TurnStarted
from holdfast.records.events.tools import SkillLoaded

NAMES = {
    *("session.started", "session.resumed", "session.salvaged", "session.ended"),
    *("session.composed", "session.state", "session.refreshed", "session.redeclared"),
    *("turn.started", "turn.completed", "turn.cancelled", "turn.answered", "turn.tools_answered"),
    *("window.appended", "window.sent", "history.trimmed", "volatile.changed", "surroundings.changed"),
    *("goal.set", "attempt.failed", "task.updated", "setting.toggled", "model.routed", "effort.set"),
    *("llm.call_started", "llm.call_completed", "llm.call_failed"),
    *("cache.planned", "cache.verdict", "cache.break", "cache.reset", "cache.ping", "cache.retention_changed"),
    *("tool.called", "tool.completed", "tool.failed", "tool.input_invalid", "tool.offloaded", "tool.deferred"),
    *("tool.discovered", "tool.masked", "tool.demoted"),
    *("tool.confirmation_requested", "tool.confirmation_resolved"),
    *("guide.delivered", "skill.loaded"),
    *("memory.updated", "memory.surfaced", "memory.evicted"),
    *("compaction.started", "compaction.completed", "compaction.failed"),
    *("delegate.started", "delegate.completed", "delegate.failed", "delegate.asked"),
    *("gateway.bypassed", "gateway.preflight", "gateway.auth_failed"),
    *("mcp.server_disconnected", "mcp.tools_changed"),
    *("process.started", "process.exited"),
    "bus.gap",
}


def text_kinds(type_: inspect.Type, kind: str | None = None) -> set[str]:
    """What the text inside a field's type may be: the kinds of `fields`, or "unmarked"."""
    if isinstance(type_, inspect.Metadata):
        return text_kinds(type_.type, (type_.extra or {}).get("kind"))
    if isinstance(type_, inspect.StrType):
        return {kind or "unmarked"}
    if isinstance(type_, inspect.UnionType):
        return set().union(*(text_kinds(part, kind) for part in type_.types))
    if isinstance(type_, inspect.VarTupleType):
        return text_kinds(type_.item_type)
    if isinstance(type_, inspect.TupleType):
        return set().union(*(text_kinds(part) for part in type_.item_types))
    assert isinstance(
        type_,
        inspect.IntType | inspect.BoolType | inspect.DecimalType | inspect.NoneType | inspect.LiteralType,
    ), type_
    return set()


def kinds_of(event: type[Event]) -> set[str]:
    info = inspect.type_info(event)
    assert isinstance(info, inspect.StructType)
    return set().union(*(text_kinds(field.type) for field in info.fields))


def test_it_holds_exactly_the_named_events() -> None:
    assert set(CATALOGUE) == NAMES


def test_every_event_class_is_listed_under_its_own_name() -> None:
    assert set(Event.__subclasses__()) == set(CATALOGUE.values())
    assert all(event.type == name for name, event in CATALOGUE.items())


def test_skills_are_neither_created_nor_unloaded_by_an_event() -> None:
    assert "skill.created" not in CATALOGUE
    assert "skill.unloaded" not in CATALOGUE


@pytest.mark.parametrize("event", CATALOGUE.values(), ids=lambda event: event.type)
def test_every_event_is_frozen_and_has_a_known_sensitivity(event: type[Event]) -> None:
    assert event.__struct_config__.frozen
    assert event.__struct_config__.forbid_unknown_fields
    assert event.sensitivity in SENSITIVITIES
    assert event.sensitivity in event.allowed()
    assert "private" in event.allowed()


@pytest.mark.parametrize("event", CATALOGUE.values(), ids=lambda event: event.type)
def test_bodies_of_prompts_stand_only_in_private_events(event: type[Event]) -> None:
    kinds = kinds_of(event)
    assert kinds <= {"name", "digest", "place", "body"}, "a text field must say what it may carry"
    if kinds & {"body", "place"}:
        assert event.allowed() == ("private",)


def test_the_rule_sees_a_body_where_there_is_one() -> None:
    assert kinds_of(TurnStarted) == {"body"}

    class Careless(msgspec.Struct):
        words: tuple[str, ...]

    info = inspect.type_info(Careless)
    assert isinstance(info, inspect.StructType)
    assert text_kinds(info.fields[0].type) == {"unmarked"}


def test_a_laxer_sensitivity_is_never_allowed() -> None:
    for event in CATALOGUE.values():
        strictness = SENSITIVITIES.index(event.sensitivity)
        assert all(SENSITIVITIES.index(one) <= strictness for one in event.allowed())


def test_the_payload_of_skill_loaded_is_the_prescribed_one() -> None:
    loaded = SkillLoaded(
        skill_id="pdf",
        skill_version="3",
        load_reason="always",
        load_size_tokens=1200,
        source="global",
        triggered_by_tool_use_id=None,
    )
    assert msgspec.to_builtins(loaded) == {
        "skill_id": "pdf",
        "skill_version": "3",
        "load_reason": "always",
        "load_size_tokens": 1200,
        "source": "global",
        "triggered_by_tool_use_id": None,
    }
    assert SkillLoaded.sensitivity == "pseudonymous"
    assert SkillLoaded.__struct_defaults__ == (), "every one of the six fields is mandatory"
    assert get_args(LoadReason) == ("always", "on_demand", "auto_suggested")


def test_reset_reasons_and_break_causes_are_closed_sets() -> None:
    assert set(RESET_REASONS) == {
        "session_start", "session_load", "compaction", "priced_edit", "model_switch", "effort_changed",
        "tools_changed_by_user",
        "tools_redeclared", "volatile_system_changed", "memory_block_changed", "history_trimmed",
        "repair_forgotten", "bypassed", "unmarked",
    }  # fmt: skip
    assert set(BREAK_CAUSES) == {
        "model_changed", "tools_changed", "system_prompt_changed", "parameters_changed", "messages_rewritten",
        "ttl_expired_5m", "ttl_expired_1h", "lookback_exceeded", "below_minimum", "parallel_race",
        "likely_server_side", "unknown",
    }  # fmt: skip
