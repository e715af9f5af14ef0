"""`agent.history_turns` through the agent's door: no request holds more turns of the user's than it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent import Sessions, Watch
from holdfast.records import Request, Text, validate
from holdfast.simulator import VirtualClock
from tests.agent.bench import MODELS, START, calls
from tests.agent.open_agents import RecordingProvider, recorded_agent
from tests.agent.summaries import GOOD, asks_for_summary, summarizer

TURN = "question number "


def turns_of(request: Request) -> list[int]:
    """The turns of the user's that a request holds, by number."""
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return [int(text.removeprefix(TURN).split()[0]) for text in texts if text.startswith(TURN)]


async def ask(sessions: Sessions, id: str | None, numbers: range, clock: VirtualClock, watch: Watch) -> str:
    session = await sessions.create() if id is None else await sessions.resume(id)
    for number in numbers:
        said = f"{TURN}{number} {calls(('list_dir', {'path': '.'}))}" if number % 2 else f"{TURN}{number} please"
        turn = await session.ask(said, watch=watch)
        assert turn.ended == "completed", turn.problem
        clock.advance(10)
    return session.id


def obliging(request: Request) -> object:
    """Does what the end of the user's words says."""
    last = request.messages[-1]
    words = [block.text for block in last.content if isinstance(block, Text)]
    if last.role == "user" and words and "list_dir" in words[-1]:
        return {"call": [{"tool": "list_dir", "input": {"path": "."}}]}
    return "Done."


class Notices(Watch):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "gemini"])
@pytest.mark.parametrize("most", [1, 2, 15])
async def test_c80_no_request_holds_more_turns_resumed_or_not(tmp_path: Path, dialect: str, most: int) -> None:
    clock, notices = VirtualClock(START), Notices()
    provider = RecordingProvider(clock, obliging)
    flags: dict[str, object] = {"agent.history_turns": most}

    session = None
    for numbers in (range(20), range(20, 36)):
        async with recorded_agent(tmp_path, provider, clock, model=MODELS[dialect], flags=flags) as sessions:
            session = await ask(sessions, session, numbers, clock, notices)
    requests = provider.requests()
    held = [turns_of(request) for request in requests]
    assert len(requests) == 36 + 18
    assert max(len(each) for each in held) == most
    for request, turns in zip(requests, held, strict=True):
        assert not validate(request), validate(request)  # no result without its call, no call without its result
        assert turns == list(range(turns[-1] - len(turns) + 1, turns[-1] + 1))  # the newest, none left out
    kept = -(-most // 2)
    assert min(len(each) for each in held[max(most, 3) * 2 :]) == kept
    assert notices.texts
    assert ("this turn" if most == 1 else f"the last {kept} turns" if kept > 1 else "this turn") in notices.texts[0]


async def test_c80_a_session_that_was_longer_is_shortened_when_the_setting_comes(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    provider = RecordingProvider(clock, obliging)

    async with recorded_agent(tmp_path, provider, clock) as sessions:
        session = await ask(sessions, None, range(20), clock, Watch())
    async with recorded_agent(tmp_path, provider, clock, flags={"agent.history_turns": 4}) as sessions:
        await ask(sessions, session, range(20, 26), clock, Watch())
    held = [turns_of(request) for request in provider.requests()]
    assert max(held, key=len) == list(range(20))
    assert max(len(turns) for turns in held if turns[-1] >= 20) == 4
    assert not any(validate(request) for request in provider.requests())


async def test_c80_with_0_all_of_it_is_sent(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    provider = RecordingProvider(clock, obliging)

    async with recorded_agent(tmp_path, provider, clock) as sessions:
        await ask(sessions, None, range(35), clock, Watch())
    assert turns_of(provider.requests()[-1]) == list(range(35))


async def test_c80_a_compaction_in_between_leaves_no_more(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    provider = RecordingProvider(clock, summarizer(GOOD))
    flags: dict[str, object] = {
        "agent.history_turns": 4,
        "agent.compaction.anchor_turns": 1,
        "agent.compaction.keep_recent_tokens": 100,
    }

    async with recorded_agent(tmp_path, provider, clock, flags=flags) as sessions:
        session = await sessions.create()
        for number in range(12):
            await session.ask(f"{TURN}{number} " + "word " * 1_500)
            if number == 6:
                await session.compact()
    requests = provider.requests()
    assert any(asks_for_summary(request) for request in requests)
    assert max(len(turns_of(request)) for request in requests) == 4
    assert not any(validate(request) for request in requests)
