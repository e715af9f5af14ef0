"""What is billed is what was sent: every body read anew has the markers and the mode that the cache rules were asked
about."""

from __future__ import annotations

import pytest

from holdfast.engine.state import facts_of
from holdfast.facts import model
from holdfast.lab import Lab, ReplayOptions, playback
from holdfast.lab.playback import ReplayedCall
from holdfast.lab.sessions import TimedRequest, dialect_of
from holdfast.wire.prompts import PromptReader
from tests.lab.replay.coding_sessions import coding_session

pytestmark = pytest.mark.slow

MODELS = (
    "claude-opus-4-6",
    "claude-sonnet-5-5",
    "gpt-5.5",
    "gpt-6.1-sol",
    "gemini-3-pro",
    "deepseek-chat",
    "openrouter:anthropic/claude-opus-4-6",
    "openrouter:openai/gpt-6.1-sol",
    "openrouter:google/gemini-3-pro",
)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("client", [None, "claude-code"])
def test_the_bodies_carry_what_is_billed(
    name: str, client: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    facts, seen = model(name), 0

    class Looking(playback.Dump):
        def __init__(self, path: object) -> None: ...
        def __enter__(self) -> Looking:
            return self

        def __exit__(self, *_: object) -> None: ...
        def begin(self, **about: object) -> None:
            self.strategy = about["strategy"]

        def sent(self, turn: TimedRequest, prepared: ReplayedCall) -> None:
            nonlocal seen
            body = dialect_of(facts).parse(prepared.raw, model=facts.name)
            assert facts_of(body).ref == facts.ref
            found = PromptReader().read(body, facts).prompt
            billed = prepared.core.prompt
            assert found.keys == billed.keys, self.strategy
            assert (set(found.marks), found.mode) == (set(billed.marks), billed.mode), (self.strategy, turn.at)
            seen += 1

    monkeypatch.setattr("holdfast.lab.lab.Dump", Looking)
    options = ReplayOptions(dump=tmp_path, client=client)  # type: ignore[arg-type]
    lab = Lab([coding_session(6)], ["all"], [name], options)
    lab.play()
    assert seen == lab.total
