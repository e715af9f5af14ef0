"""Which reason a request gives where several things have changed: the one that is true of its own lane."""

from __future__ import annotations

from holdfast.agent.resets import Resets
from holdfast.records.events import Envelope, Event
from holdfast.records.events.agent import HistoryTrimmed, SessionRedeclared, TurnAnswered, VolatileChanged, WindowSent
from holdfast.records.events.sessions import CompactionCompleted, CompactionStarted, SessionResumed

ONE, TWO = "anthropic:one", "openai:two"


def told(*payloads: Event) -> Resets:
    resets = Resets()
    for number, payload in enumerate(payloads):
        resets.take(Envelope.of(payload, id=f"{number:026d}", at=number, session="s", actor="system"))
    return resets


def answered(model: str) -> TurnAnswered:
    return TurnAnswered(call="c", model=model, dialect="d", message="{}")


def sent(model: str) -> WindowSent:
    return WindowSent(call="c", model=model, entries=1)


COMPACTED = CompactionCompleted(tokens_before=2, tokens_after=1)


def test_a_model_that_was_never_asked_is_a_switch_unless_it_is_the_first() -> None:
    assert told().of(ONE) is None
    assert told(sent(ONE)).of(TWO) == "model_switch"
    assert told(sent(ONE)).of(ONE) is None


def test_each_model_is_told_a_reason_once() -> None:
    resets = told(sent(ONE), sent(TWO), COMPACTED, sent(ONE))
    assert (resets.of(ONE), resets.of(TWO)) == (None, "compaction")


def test_tools_are_declared_anew_for_one_model_alone() -> None:
    """The others keep their array: what changed for them is the conversation."""
    resets = told(sent(ONE), sent(TWO), COMPACTED, SessionRedeclared(tools="[]", model=ONE))
    assert (resets.of(ONE), resets.of(TWO)) == ("tools_redeclared", "compaction")


def test_a_redeclaration_that_names_no_model_counts_for_all() -> None:
    resets = told(sent(ONE), sent(TWO), SessionRedeclared(tools="[]"))
    assert (resets.of(ONE), resets.of(TWO)) == ("tools_redeclared", "tools_redeclared")


def test_a_volatile_text_that_is_as_it_was_is_no_reason() -> None:
    resets = told(VolatileChanged(text="a"), sent(ONE), VolatileChanged(text="b"), HistoryTrimmed(head=1, cut=2))
    assert resets.of(ONE) == "volatile_system_changed"
    resets = told(
        VolatileChanged(text="a"),
        sent(ONE),
        VolatileChanged(text="b"),
        HistoryTrimmed(head=1, cut=2),
        VolatileChanged(text="a"),
    )
    assert resets.of(ONE) == "history_trimmed"


def test_a_summary_that_was_asked_for_by_a_process_that_is_gone_is_a_reason() -> None:
    asked = (sent(ONE), sent(TWO), CompactionStarted(tokens=2, limit=1), sent(ONE))
    resets = told(*asked, SessionResumed())
    assert (resets.of(ONE), resets.of(TWO)) == ("compaction", None)
    assert told(*asked).of(ONE) is None


def test_a_request_that_may_never_have_left_gives_its_reason_again() -> None:
    """The program was killed behind the write that says it goes out."""
    leaving = (sent(ONE), answered(ONE), COMPACTED, sent(ONE))
    assert told(*leaving).of(ONE) is None, "sent again by the same process it extends the attempt before"
    assert told(*leaving, SessionResumed()).of(ONE) == "compaction"
    assert told(*leaving, sent(ONE), SessionResumed()).of(ONE) == "compaction"
    assert told(*leaving, answered(ONE), SessionResumed()).of(ONE) is None
    assert told(*leaving, SessionResumed(), sent(ONE), answered(ONE), SessionResumed()).of(ONE) is None


def test_the_same_with_a_volatile_text() -> None:
    leaving = (sent(ONE), answered(ONE), VolatileChanged(text="a"), sent(ONE))
    assert told(*leaving, SessionResumed()).of(ONE) == "volatile_system_changed"
    assert told(*leaving, answered(ONE), SessionResumed()).of(ONE) is None
