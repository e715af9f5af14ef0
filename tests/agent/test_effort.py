"""How much the model is to think: `agent.effort` through `open_agent` and sessions, as each provider is told."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast import facts
from holdfast.agent import open_agent
from holdfast.agent.contract import OutgoingRequest, ProviderAnswer, Task
from holdfast.agent.effort import effort_members, lost_section, price_of_change
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine import PreparedCall
from holdfast.errors import HoldfastError
from holdfast.records import Request, Thinking
from holdfast.records.events.agent import EffortSet, WindowSent
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.script import Script, load_script
from holdfast.tools.toolbox import dialect_of_model
from tests.agent.bench import Bench, calls, settings
from tests.agent.watches import RecordingWatch

OPUS, SONNET, HAIKU = (f"anthropic:claude-{name}" for name in ("opus-5-5", "sonnet-5-5", "haiku-4-5"))
GPT, OLD_GPT, GEMINI, GEMINI_25 = (
    "openai:gpt-6.1-sol",
    "openai:gpt-5.5",
    "gemini:gemini-3-flash",
    "gemini:gemini-2.5-pro",
)
ROUTED = "openrouter:anthropic/claude-sonnet-5-5"
SAID = {
    OPUS: ("high", {"output_config": {"effort": "high"}}),
    "anthropic:claude-opus-4-6": ("max", {"output_config": {"effort": "max"}, "thinking": {"type": "adaptive"}}),
    GPT: ("xhigh", {"reasoning": {"effort": "xhigh"}}),
    OLD_GPT: ("none", {"reasoning": {"effort": "none"}}),
    GEMINI: ("minimal", {"thinkingConfig": {"thinkingLevel": "minimal"}}),
    GEMINI_25: ("low", {"thinkingConfig": {"thinkingBudget": 1024}}),
    ROUTED: ("low", {"reasoning": {"effort": "low"}}),
}
WORDS = "A rather long question about the state of the matter, word by word. " * 300


class Recording:
    """A simulated provider that keeps what was sent."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulated, self.bodies = Simulated(simulator), list[dict[str, Any]]()

    def open(self, request: OutgoingRequest) -> AbstractAsyncContextManager[ProviderAnswer]:
        self.bodies.append(json.loads(request.raw))
        return self._simulated.open(request)


def body_of(bench: Bench, number: int = -1) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(bench.sent[number][2])
    return body | body.get("generationConfig", {})


def said(body: dict[str, Any]) -> dict[str, Any]:
    members = ("output_config", "thinking", "reasoning", "reasoning_effort", "thinkingConfig")
    return {name: body[name] for name in members if name in body}


def config(model: str, effort: str | None = None, **agent: Any) -> Settings:
    return settings(model=model, cache=CacheSettings(padding="always"), agent={"effort": effort, **agent})


@pytest.mark.parametrize("model", SAID)
async def test_every_request_says_it_as_its_provider_is_told(tmp_path: Path, model: str) -> None:
    effort, members = SAID[model]

    async with Bench(tmp_path, config=config(model, effort)) as bench:
        session = await bench.begin(calls(("list_dir", {})), "thanks")
        assert [said(body_of(bench, number)) for number in range(3)] == [members] * 3
        bench.assert_sound(session)


@pytest.mark.parametrize("model", SAID)
async def test_unset_nothing_is_said(tmp_path: Path, model: str) -> None:
    async with Bench(tmp_path, config=config(model)) as bench:
        await (await bench.sessions.create()).ask("hello")
        assert said(body_of(bench)) == {}


def test_a_budget_leaves_room_for_an_answer() -> None:
    known = facts.model(GEMINI_25)
    for limit, budget in ((65_536, 24_576), (16_384, 15_360), (2_000, 976), (500, 0)):
        ((_, config),) = effort_members(known, "gemini", "high", limit)
        assert json.loads(config) == {"thinkingConfig": {"thinkingBudget": budget}}


async def test_through_open_agent_from_the_file_and_for_a_sub_agent(tmp_path: Path) -> None:
    """A sub-agent has its parent's effort, so that both read the same entries, unless its own settings say another."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "holdfast.toml").write_text(
        f'[agent]\nmodel = "{OPUS}"\neffort = "medium"\n[agents.thinker.agent]\neffort = "max"\n'
    )
    clock = VirtualClock(1_800_000_000.0)
    script = Script(name="short", function=lambda _: "Done.")
    simulator = Simulator(script=script, clock=clock)

    provider = Recording(simulator)

    async with open_agent(work, home=tmp_path / "home", provider=provider, clock=clock.now) as sessions:
        session = await sessions.create()
        await session.ask("hello")
        session.set_effort("low")
        await session.delegate([Task(task="Look around.", role="helper")])
        await session.delegate([Task(task="Think hard.", role="thinker")])
    assert [said(body)["output_config"]["effort"] for body in provider.bodies] == ["medium", "low", "max"]


@pytest.mark.parametrize("model", [OPUS, GPT, OLD_GPT])
async def test_a_change_is_a_reset_with_its_reason_and_its_price(tmp_path: Path, model: str) -> None:
    """What was foreseen is what the provider billed, and nothing else breaks."""

    async with Bench(tmp_path, config=config(model, "low")) as bench:
        session = await bench.sessions.create()
        planned: list[PreparedCall] = []
        session.on_planned = planned.append
        for number in range(4):
            await session.ask(f"{WORDS} {number}")
            bench.clock.advance(20)
        before = bench.used()[-1]
        assert before.read > 0
        price = price_of_change(session)
        assert price.tokens > 3_000
        assert price.cost is not None
        assert price.read_cost is not None
        assert price.cost > price.read_cost
        turn_before = session.totals().calls
        session.set_effort("high")
        turn = await session.ask("Think again.")
        assert turn.line.resets == ("effort_changed",)
        assert session.totals().calls == turn_before + 1
        covered = before.read + before.written  # a provider that writes for nothing says nothing of it
        lost = covered - bench.used()[-1].read
        assert abs(lost - price.tokens) <= 0.05 * lost, (lost, price.tokens)
        turn = await session.ask("And once more.")
        assert turn.line.resets == ()
        assert turn.line.usage.read > 0
        assert not bench.breaks()
        sent = [each.payload for each in bench.log(session.id) if isinstance(each.payload, WindowSent)]
        assert [each.reset for each in sent][-2:] == ["effort_changed", None]
        (event,) = [each.payload for each in bench.log(session.id) if isinstance(each.payload, EffortSet)]
        assert (event.effort, event.before, event.cold_tokens) == ("high", "low", price.tokens)
        assert [each.core.outcome.read for each in planned] == [used.read for used in bench.used()]


def test_what_a_change_loses_is_known_of_every_route() -> None:
    lost = {model: lost_section(facts.model(model), dialect_of_model(model)) for model in SAID}
    assert lost == {
        OPUS: "messages",
        "anthropic:claude-opus-4-6": "messages",
        GPT: "system",
        OLD_GPT: "system",
        GEMINI: None,
        GEMINI_25: None,
        ROUTED: "messages",
    }


async def test_on_anthropic_tools_and_system_text_stay_cached(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=config(OPUS)) as bench:
        session = await bench.begin(WORDS)
        head = sum(each.tokens for each in session.inspect() if each.path.startswith(("tools", "system")))
        session.set_effort("max")
        await session.ask("again")
        assert bench.used()[-1].read == pytest.approx(head, rel=0.05)


@pytest.mark.parametrize("model", [GEMINI, GEMINI_25])
async def test_where_the_cache_does_not_depend_on_it_there_is_no_reset(tmp_path: Path, model: str) -> None:
    async with Bench(tmp_path, config=config(model, "low")) as bench:
        session = await bench.begin(WORDS)
        assert price_of_change(session).tokens == 0
        session.set_effort("high")
        turn = await session.ask("again")
        assert turn.line.resets == ()
        assert said(body_of(bench)) != said(body_of(bench, 0))
        assert not bench.breaks()


@pytest.mark.parametrize("level", ["", "low"])
async def test_where_the_cache_does_not_depend_on_it_a_live_window_stays_and_other_reasons_are_given(
    tmp_path: Path, level: str
) -> None:
    async with Bench(tmp_path, config=config(GEMINI, history_turns=8)) as bench:
        session = await bench.sessions.create()
        for number in range(8):
            await session.ask(f"{number} {WORDS}")
            bench.clock.advance(5)
            if number == 5 and level:
                session.set_effort(level)
        messages = [len(body.messages) for body in bench.bodies()]
        assert messages == sorted(messages), "nothing is cut off while it is cached"
        if level:
            session.set_effort("high")
        turn = await session.ask("one too many")
        assert len(bench.bodies()[-1].messages) < messages[-1]
        assert turn.line.resets == ("history_trimmed",)


@pytest.mark.parametrize("model", [OPUS, GPT])
async def test_back_to_what_it_was_is_the_same_reset(tmp_path: Path, model: str) -> None:
    """What the first requests left is read again, and what came after them is lost for a known reason."""

    async with Bench(tmp_path, config=config(model)) as bench:
        session = await bench.sessions.create()
        for number, level in enumerate(("", "low", "", "default")):
            if level:
                session.set_effort(level)
            await session.ask(f"{number} {WORDS}")
            bench.clock.advance(10)
        assert bench.used()[-1].read > 4_000
        bench.store.flush()
        assert [(each.cause, each.reason) for each in bench.store.breaks()] == [(None, "effort_changed")] * 2


@pytest.mark.parametrize("model", [OPUS, GPT])
async def test_a_change_that_a_damaged_log_has_lost_leaves_no_break_without_a_reason(
    tmp_path: Path, model: str
) -> None:
    async with Bench(tmp_path, config=config(model)) as bench:
        session = await bench.begin(WORDS)
        bench.clock.advance(10)
        session.set_effort("low")
        await session.ask(WORDS)
        bench.clock.advance(10)
        await bench.restart()
        (log,) = bench.sessions.directory.glob("*.jsonl")
        log.write_bytes(log.read_bytes().replace(b'"type":"effort.set"', b'"type":"effort.sXt"'))
        session = await bench.sessions.resume(session.id)
        await session.ask("Go on.")
        bench.store.flush()
        assert [(each.cause, each.reason) for each in bench.store.breaks()] == [
            (None, "effort_changed"),
            (None, "session_load"),
        ]


@pytest.mark.parametrize("clean", [True, False])
async def test_a_resumed_session_keeps_it(tmp_path: Path, clean: bool) -> None:
    """Also where the program was killed between the change and the request that says it."""

    async with Bench(tmp_path, config=config(OPUS, "low")) as bench:
        session = await bench.begin(WORDS)
        session.set_effort("xhigh")
        session = await bench.resumed(session, clean=clean)
        assert session.state.effort == "xhigh"
        turn = await session.ask("still?")
        assert said(body_of(bench)) == {"output_config": {"effort": "xhigh"}}
        assert turn.line.resets == ("effort_changed",)
        forked = await bench.sessions.fork(session.id)
        await forked.ask("and you?")
        assert said(body_of(bench)) == {"output_config": {"effort": "xhigh"}}
        assert not bench.breaks()


async def test_a_request_for_a_summary_says_the_same(tmp_path: Path) -> None:
    """Law 6: it extends the last request, and reads what that covered."""

    compaction = {"keep_recent_tokens": 1_000, "reserve_tokens": 4_000, "anchor_turns": 0}
    told = settings(model=OPUS, agent={"effort": "high"}, compaction=compaction)
    async with Bench(tmp_path, config=told) as bench:
        session = await bench.sessions.create()
        for number in range(4):
            await session.ask(f"{WORDS} {number}")
        with suppress(HoldfastError):  # the scripted model gives no summary; what it was asked is enough
            await session.compact()
        assert {json.dumps(said(body_of(bench, number))) for number in range(len(bench.sent))} == {
            '{"output_config": {"effort": "high"}}'
        }
        assert len(bench.sent) > 4
        assert bench.used()[4].read >= bench.used()[3].read + bench.used()[3].written


async def test_a_model_without_it_is_told_nothing_and_says_so(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=config(OPUS, "xhigh")) as bench:
        session = await bench.begin("hello")
        watch = RecordingWatch()
        await session.ask(f"@{HAIKU} and you?", watch=watch)
        assert said(body_of(bench)) == {}
        assert any(f"{HAIKU} takes no effort 'xhigh'" in text for text in watch.lines)
        await session.ask("back")
        assert said(body_of(bench)) == {"output_config": {"effort": "xhigh"}}
        assert not bench.breaks()


async def test_a_setting_for_another_model_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Bench(tmp_path, config=config(OPUS, "xhigh")) as bench:
        await bench.begin("hello", model=HAIKU)
        assert said(body_of(bench)) == {}
    assert f"agent.effort is xhigh, and {HAIKU} takes no such level" in caplog.text


async def test_what_a_model_does_not_take_is_refused_with_what_it_takes(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=config(OPUS, "minimal")) as bench:
        with pytest.raises(HoldfastError, match="'minimal'; it takes low, medium, high, xhigh, max"):
            await bench.sessions.create()
        session = await bench.sessions.create(effort="low")
        with pytest.raises(HoldfastError, match="no effort 'enormous'; it takes low"):
            session.set_effort("enormous")
        session.set_effort("default")
        await session.ask("hello")
        assert said(body_of(bench)) == {}
        with pytest.raises(HoldfastError, match="takes no effort as far as is known"):
            await bench.sessions.create(model=HAIKU, effort="low")


THINKING = """
delay: {first_token: 0, per_token: 0}
rules:
  - when: {tool_result: list_dir}
    think: "Now I know what is there."
    say: "There it is."
  - when: {contains: LOOK}
    think: "I should look first."
    call: {tool: list_dir, input: {}}
  - when: {contains: ""}
    say: "Well."
"""


async def test_thoughts_come_back_with_their_signatures(tmp_path: Path) -> None:
    """A thinking session with tools: every block as it came, in every later request, and no break."""
    script = tmp_path / "script.yaml"
    script.write_text(THINKING)

    clock = VirtualClock(1_800_000_000.0)
    simulator = Simulator(script=load_script(script), clock=clock)
    model = "anthropic:claude-opus-4-6"
    async with Bench(tmp_path, config=config(model, "high"), simulator=simulator) as bench:
        session = await bench.begin("LOOK around", "thanks")
        requests: list[Request] = bench.bodies()
        thoughts = [
            block for message in requests[-1].messages for block in message.content if isinstance(block, Thinking)
        ]
        assert [each.text for each in thoughts] == ["I should look first.", "Now I know what is there."]
        assert all(each.signature for each in thoughts)
        assert requests[2].messages[: len(requests[1].messages)] == requests[1].messages
        bench.assert_sound(session)
        assert bench.used()[-1].read > 0
