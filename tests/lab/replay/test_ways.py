"""Two ways to replay, one result: prompts through the core, and bodies through the whole engine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.caches.prompts import Mark
from holdfast.caches.providers import cache
from holdfast.engine.state import facts_of
from holdfast.facts import ModelFacts, model
from holdfast.lab import FAULTS, STRATEGY_NAMES, Trace, with_gaps
from holdfast.lab.contenders import Contender, Repair, contenders
from holdfast.lab.playback import CoreWay, EngineWay, PlayedRequest, ReplayedCall, play
from holdfast.lab.sessions import TimedRequest, filled, is_shape, turns
from holdfast.wire import DIALECTS
from holdfast.wire.prompts import PromptReader
from tests.lab.recordings import needs_recordings, own, recorded
from tests.lab.replay.coding_sessions import coding_session

OPUS = model("anthropic:claude-opus-4-6")
SONNET = model("anthropic:claude-sonnet-5-5")
ORDER = ("tools-shuffled", "keys-reordered")
NAMES = [name for name in STRATEGY_NAMES if name != "optimal"]


def marks_of(contender: Contender, session: Sequence[TimedRequest]) -> list[tuple[Mark, ...]]:
    return [] if contender.peer is None else [contender.peer.place(turn.prompt) for turn in session]


def through(contender: Contender, session: Sequence[TimedRequest], facts: ModelFacts) -> list[PlayedRequest]:
    automatic = contender.peer is not None and contender.peer.name == "automatic"
    mode = "" if contender.peer is None else contender.peer.mode_for(facts)
    way = EngineWay(contender.settings, facts, mode=mode, automatic=automatic)
    return list(play(session, way, cache(facts), marks=marks_of(contender, session)))


def told(played: PlayedRequest) -> object:
    """All that can be said of a request, but for the keys of its blocks."""
    found = played.verdict.finding
    return (
        played.number,
        played.outcome.prompt.marks,
        played.billed,
        played.verdict.explained,
        None if found is None else (found.cause, found.tokens, found.expected),
    )


def compare(trace: Trace, names: Sequence[str], facts: ModelFacts, *, client: str | None = None) -> None:
    bare, bodies = turns(trace, facts), turns(trace, facts, bodies=True)
    for contender in contenders(names, client=client, repair="suggest"):
        mode = "" if contender.peer is None else contender.peer.mode_for(facts)
        way = CoreWay(contender.settings, facts, mode=mode)
        quick = list(play(bare, way, cache(facts), marks=marks_of(contender, bare)))
        assert list(map(told, quick)) == list(map(told, through(contender, bodies, facts)))


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", NAMES)
def test_they_agree_on_a_made_session(name: str) -> None:
    compare(coding_session(24, compaction=15, agent=True), [name], OPUS)


@pytest.mark.parametrize("session", ["made-1", "made-2"])
@pytest.mark.parametrize("pattern", ["none", "office"])
def test_they_agree_on_our_own_sessions(session: str, pattern: str) -> None:
    compare(with_gaps(own(session), pattern, 23), ["economic", "zones", "claude-code"], SONNET)


def test_they_agree_on_top_of_another_tool() -> None:
    for client in ("claude-code", "automatic"):
        compare(coding_session(24), ["economic"], OPUS, client=client)


@needs_recordings
@pytest.mark.slow
@pytest.mark.parametrize("facts", [OPUS, SONNET], ids=lambda facts: facts.name)
@pytest.mark.parametrize("session", ["coding-1", "coding-2"])
def test_they_agree_on_recorded_sessions(session: str, facts: ModelFacts) -> None:
    compare(recorded(session), NAMES, facts)


def reread(trace: Trace, facts: ModelFacts, contender: Contender) -> int:
    """Play a session and compare what was billed with what was sent; gives how many requests had repairs."""
    reader, repaired = PromptReader(), 0

    def sent(turn: TimedRequest, prepared: ReplayedCall) -> None:
        nonlocal repaired
        body = reader.parse(DIALECTS[turn.body.dialect], prepared.raw, model=facts.name)
        found, billed = reader.read(body, facts_of(body)).prompt, prepared.core.prompt
        assert (found.keys, found.ends, found.marks) == (billed.keys, billed.ends, billed.marks)
        assert (found.route, found.mode, found.hidden) == (billed.route, billed.mode, billed.hidden)
        repaired += prepared.whole.sent is not prepared.whole.client

    session = turns(trace, facts, bodies=True)
    mode = "" if contender.peer is None else contender.peer.mode_for(facts)
    way = EngineWay(contender.settings, facts, mode=mode)
    for _ in play(session, way, cache(facts), marks=marks_of(contender, session), on_sent=sent):
        pass
    return repaired


@pytest.mark.parametrize("repair", ["suggest", "on"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_billed_is_what_was_sent(fault: str, repair: Repair) -> None:
    """The engine's own idea of a request, which is billed, is that of whoever reads its bytes."""
    (contender,) = contenders(["economic"], client="claude-code", repair=repair)
    timed = with_gaps(own("session"), "none", 11)
    assert not is_shape(timed)
    repaired = reread(FAULTS[fault](timed, 11), OPUS, contender)
    mended = ORDER if repair == "suggest" else (*ORDER, "clock-at-head", "clock-in-middle", "memory-in-system")
    assert (repaired > 0) == (fault in mended)


@pytest.mark.unmeasured
@pytest.mark.parametrize("ref", ["openai:gpt-6.1-sol", "openai:gpt-5.5", "gemini:gemini-3.1-pro"])
@pytest.mark.parametrize("name", ["economic", "pydantic-ai", "none"])
def test_and_with_other_providers(ref: str, name: str) -> None:
    (contender,) = contenders([name], client=None, repair="suggest")
    reread(with_gaps(own("session"), "none", 11), model(ref), contender)
    reread(filled(coding_session(8), model(ref)), model(ref), contender)
