"""Whatever tools do and whenever somebody says stop: every call is answered once, in order, and changes never overlap.

Batches are drawn at random for up to three agents that share a workspace: tools that succeed, fail, raise, hang, give
back nonsense, are unknown or refused, with and without a cancel at a random moment.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from holdfast.config.sections.agent import ConfirmSettings, ToolsSettings
from holdfast.records import Message, Request, Text, ToolUse, validate
from holdfast.records.events import Bus
from holdfast.tools.confirmation import Confirmations, Decision, Question
from holdfast.tools.contract import (
    MUTATING,
    READ_ONLY,
    Cancel,
    Effect,
    Tool,
    ToolAnswer,
    ToolContext,
    ToolExecutionError,
    ToolOutput,
)
from tests.support.toolboxes import dispatcher

EFFECTS: tuple[Effect, ...] = ("none", "read", "write", "execute", "network")
BEHAVIOURS = ("succeeds", "empty", "fails", "raises", "exits", "odd", "hangs", "stops", "refused", "unasked", "deaf")
ENDS = frozenset({"tool.completed", "tool.failed", "tool.input_invalid"})


class Odd(BaseException):
    pass


class World:
    """Counts who is changing something."""

    def __init__(self, cancel: Cancel) -> None:
        self.cancel = cancel
        self.changing = 0
        self.overlaps = 0

    def tool(self, behaviour: str, effect: Effect) -> Tool:
        async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            changes = effect in MUTATING
            self.changing += changes
            self.overlaps += changes and self.changing > 1
            try:
                for _ in range(input.get("steps", 0)):
                    await asyncio.sleep(0)
                return await self._end(behaviour)
            finally:
                self.changing -= changes

        schema = b'{"type":"object","properties":{"steps":{"type":"integer","maximum":3}}}'
        return Tool(
            name=f"{behaviour}-{effect}",
            description="x",
            run=run,
            effect=effect,
            input_schema=schema,
            timeout_s=0.003 if behaviour in ("hangs", "deaf") else 30,
        )

    async def _end(self, behaviour: str) -> Any:
        if behaviour == "fails":
            raise ToolExecutionError("it is \ud800 full")
        if behaviour == "raises":
            raise Odd("odd")
        if behaviour == "exits":
            raise SystemExit(1)
        if behaviour == "odd":
            return 5
        if behaviour == "stops":
            self.cancel.set()
        if behaviour in ("hangs", "stops"):
            await asyncio.sleep(30)
        if behaviour == "deaf":
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                await asyncio.sleep(0.001)
        return ToolOutput(content="" if behaviour == "empty" else "fine")


INPUTS = (b"{}", b'{"steps":1}', b'{"steps":3}', b'{"steps":9}', b"{", b"[]", b"")
names = st.one_of(
    st.builds("{}-{}".format, st.sampled_from(BEHAVIOURS), st.sampled_from(EFFECTS)), st.sampled_from(["x", "\ud800"])
)
batches = st.lists(st.tuples(names, st.sampled_from(INPUTS)), max_size=6)


class Played(Struct):
    calls: list[ToolUse]
    answers: tuple[ToolAnswer, ...]
    types: list[str]


async def play(root: Path, agents: list[list[tuple[str, bytes]]], stop_after: int | None, abort: bool) -> list[Played]:
    cancel, reported = Cancel(), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, about: reported.append(about))
    world = World(cancel)
    tools = {tool.name: tool for b in BEHAVIOURS for e in EFFECTS for tool in [world.tool(b, e)]}
    refused = tuple(name for name in tools if name.startswith("refused"))

    async def ask(question: Question) -> Decision:
        await asyncio.sleep(0)
        if question.tool.startswith("unasked"):
            raise OSError("nobody is there")
        return Decision(True)

    writing, confirm = asyncio.Lock(), ConfirmSettings(deny=refused)
    confirmations = Confirmations(confirm, ask=ask)
    runs = []
    for number, batch in enumerate(agents):
        bus = Bus()
        agent = dispatcher(
            root,
            tools,
            settings=ToolsSettings(confirm=confirm),
            session=f"s{number}",
            confirmations=confirmations,
            bus=bus,
            write_lock=writing,
            grace_s=5.0,
        )
        calls = [ToolUse(f"{number}/{place}", name, raw) for place, (name, raw) in enumerate(batch)]
        runs.append((calls, bus.subscribe(), asyncio.create_task(agent.run(calls, cancel=cancel))))
    if stop_after is not None:
        for _ in range(stop_after):
            await asyncio.sleep(0)
        cancel.set()
        for _, _, task in runs if abort else []:
            task.cancel()
    ended = await asyncio.gather(*(task for _, _, task in runs), return_exceptions=True)
    played = []
    for (calls, told, _), answers in zip(runs, ended, strict=True):
        types = [envelope.type for envelope in told.drain()]
        assert types.count("tool.called") == sum(kind in ENDS for kind in types) <= len(calls)
        if isinstance(answers, asyncio.CancelledError) and abort:
            continue
        assert not isinstance(answers, BaseException), answers
        played.append(Played(calls, answers, types))
    assert world.overlaps == world.changing == 0
    assert not writing.locked()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not reported
    return played


@settings(max_examples=120)
@given(
    agents=st.lists(batches, min_size=1, max_size=3),
    stop_after=st.one_of(st.none(), st.integers(0, 40)),
    abort=st.booleans(),
)
def test_every_call_is_answered_once_in_order_and_changes_never_overlap(
    agents: list[list[tuple[str, bytes]]], stop_after: int | None, abort: bool
) -> None:
    with tempfile.TemporaryDirectory() as root:
        played = asyncio.run(play(Path(root), agents, stop_after, abort))
    for each in played:
        assert [answer.result.tool_use_id for answer in each.answers] == [call.id for call in each.calls]
        results = tuple(answer.result for answer in each.answers)
        turn = (Message("assistant", tuple(each.calls)), Message("user", results)) if each.calls else ()
        assert validate(Request(model="m:m", messages=(Message("user", (Text("go"),)), *turn))) == ()
        for answer in each.answers:
            text = answer.result.content[0]
            assert isinstance(text, Text)
            assert text.text.strip()
            assert text.text.encode("utf-8")
            assert answer.result.is_error is (answer.error is not None) is (answer.output is None)
        ends = [kind for kind in each.types if kind in ENDS]
        if stop_after is None or not abort:
            assert len(ends) == len(each.calls)
            if not any(answer.cancelled for answer in each.answers):
                check_ends(each)


def check_ends(played: Played) -> None:
    """Without a cancel a call's end follows from its tool alone."""
    for call, answer in zip(played.calls, played.answers, strict=True):
        behaviour, effect = call.name.partition("-")[::2]
        asks = behaviour == "unasked" and effect not in READ_ONLY
        valid = call.input in (b"{}", b'{"steps":1}', b'{"steps":3}', b"")
        fine = behaviour in ("succeeds", "empty", "unasked") and not asks and valid
        assert answer.result.is_error is not fine, (call, answer)
