"""What runs side by side, what runs alone, and what is left when somebody says stop."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import ConfirmSettings, ToolsSettings
from holdfast.tools import time_limits
from holdfast.tools.confirmation import Confirmations, Decision, Question
from holdfast.tools.contract import Cancel, Effect, ResolvedCall, Tool, ToolContext, ToolOutput
from holdfast.tools.dispatcher import Dispatcher
from holdfast.tools.results import CANCELLED, NOT_BEGUN
from holdfast.tools.time_limits import in_thread
from tests.support.toolboxes import dispatcher
from tests.tools.dispatch_bench import ALLOW, Bench, call, raises, says, text, tool_named, violations


class Floor:
    """Where calls are seen to begin and to end."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.now: set[str] = set()
        self.most = 0

    def tool(self, name: str, effect: Effect, steps: int = 3, **fields: Any) -> Tool:
        async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            self.log.append(f"+{name}")
            self.now.add(name)
            self.most = max(self.most, len(self.now))
            for _ in range(steps):
                await asyncio.sleep(0)
            self.now.discard(name)
            self.log.append(f"-{name}")
            return ToolOutput(content=name)

        return tool_named(name, run, effect, **fields)


def hang(ignores: bool = False, began: Callable[[], None] = lambda: None) -> Callable[..., Any]:
    """A tool that never ends; with `ignores` it goes on for a while after it was told to end."""

    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        began()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not ignores:
                raise
            await asyncio.sleep(0.2)
        return ToolOutput(content="ended after all")

    return run


def test_c59_read_only_calls_run_side_by_side_and_changes_alone(tmp_path: Path) -> None:
    floor = Floor()
    kinds: list[Effect] = ["read", "none", "write", "execute", "network", "read", "network"]
    tools = [floor.tool(f"{kind}{place}", kind) for place, kind in enumerate(kinds)]
    calls = [call(tool.name) for tool in tools]
    answers = Bench(tmp_path, *tools).run(*calls)
    assert [text(answer) for answer in answers] == [tool.name for tool in tools]
    a, b, c, d, e, f, g = (tool.name for tool in tools)
    assert floor.log[:2] == [f"+{a}", f"+{b}"]
    assert set(floor.log[2:4]) == {f"-{a}", f"-{b}"}
    assert floor.log[4:8] == [sign + name for name in (c, d) for sign in "+-"]
    assert floor.log[8:11] == [f"+{e}", f"+{f}", f"+{g}"]


def test_c59_a_tool_that_changes_something_over_the_network_runs_alone(tmp_path: Path) -> None:
    floor = Floor()
    tools = [floor.tool("fetch", "network"), *(floor.tool(f"post{n}", "network", changes=True) for n in "ab")]
    Bench(tmp_path, *tools).run(*(call(tool.name) for tool in tools))
    assert floor.log == [sign + tool.name for tool in tools for sign in "+-"]


def test_c60_mcp_tools_run_alone_unless_they_are_declared_read_only(tmp_path: Path) -> None:
    floor = Floor()
    slow = [floor.tool(f"mcp__s__{n}", "network", source="mcp") for n in "ab"]
    quick = [floor.tool(f"mcp__s__{n}", "read", source="mcp") for n in "cd"]
    Bench(tmp_path, *slow, *quick).run(*(call(tool.name) for tool in (*slow, *quick)))
    assert floor.log[:5] == ["+mcp__s__a", "-mcp__s__a", "+mcp__s__b", "-mcp__s__b", "+mcp__s__c"]
    assert floor.log[5] == "+mcp__s__d"


def test_call_tool_counts_as_the_tool_behind_it(tmp_path: Path) -> None:
    floor = Floor()
    tools = {"r": floor.tool("r", "read"), "w": floor.tool("w", "write"), "q": floor.tool("q", "read")}
    bench = Bench(tmp_path, resolve=lambda call: ResolvedCall(tools[call.id[0]], {}, via="call_tool"))
    bench.run(*(call("call_tool", id=each) for each in ("r1", "q2", "w3", "w4", "r5")))
    assert floor.log[:2] == ["+r", "+q"]
    assert floor.log[4:] == ["+w", "-w", "+w", "-w", "+r", "-r"]


def test_c59_agents_that_share_a_lock_change_things_one_at_a_time(tmp_path: Path) -> None:
    floor = Floor()
    tools = {name: floor.tool(name, "write", steps=5) for name in "abcdef"}

    async def main() -> None:
        writing = asyncio.Lock()
        agents = [dispatcher(tmp_path, tools, write_lock=writing) for _ in range(3)]
        pairs = zip(agents, ("ab", "cd", "ef"), strict=True)
        await asyncio.gather(*(agent.run([call(name) for name in pair]) for agent, pair in pairs))

    asyncio.run(main())
    assert floor.most == 1
    assert sorted(floor.log) == sorted(sign + name for name in "abcdef" for sign in "+-")


async def test_a_call_that_delegates_does_not_wait_for_itself(tmp_path: Path) -> None:
    floor = Floor()
    inside = {name: floor.tool(name, "write", steps=5) for name in "ab"}
    async with asyncio.timeout(10):
        writing = asyncio.Lock()

        def agent(tools: Mapping[str, Tool]) -> Dispatcher:
            return dispatcher(tmp_path, tools, write_lock=writing)

        async def delegate(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            below = await asyncio.gather(*(agent(inside).run([call(name)]) for name in "ab"))
            return ToolOutput(content=" ".join(text(answer) for (answer,) in below))

        outer = agent({"delegate": tool_named("delegate", delegate, "write"), "w": floor.tool("w", "write")})
        first, _ = await outer.run([call("delegate"), call("w")])
        assert text(first) == "a b"
        assert not writing.locked()
    assert floor.most == 1
    assert floor.log[-2:] == ["+w", "-w"]


async def test_a_question_does_not_keep_others_from_changing_things(tmp_path: Path) -> None:
    floor = Floor()
    async with asyncio.timeout(10):
        writing, answered = asyncio.Lock(), asyncio.Event()

        async def ask(question: Question) -> Decision:
            await answered.wait()
            return Decision(True)

        def agent(settings: ToolsSettings, name: str) -> Dispatcher:
            confirmations = Confirmations(settings.confirm, ask=ask)
            return dispatcher(
                tmp_path,
                {name: floor.tool(name, "write")},
                settings=settings,
                confirmations=confirmations,
                write_lock=writing,
            )

        asking = asyncio.create_task(agent(ToolsSettings(), "a").run([call("a")]))
        await agent(ALLOW, "b").run([call("b")])
        answered.set()
        await asking
    assert floor.log == ["+b", "-b", "+a", "-a"]


@pytest.mark.parametrize("own", [True, False])
def test_a_call_that_takes_too_long_is_stopped(tmp_path: Path, own: bool) -> None:
    settings = ToolsSettings(confirm=ALLOW.confirm, timeout_s=60 if own else 0.02)
    slow = tool_named("slow", hang(), "write", timeout_s=0.02 if own else None)
    bench = Bench(tmp_path, slow, tool_named("next", says(), "write"), settings=settings)
    first, second = bench.run(call("slow"), call("next"))
    assert text(first) == "slow was stopped: it took more than 0.02 seconds."
    assert (first.cancelled, first.result.is_error) == (False, True)
    assert first.elapsed_us >= 20_000
    assert text(second) == "done"


async def test_a_call_that_ignores_its_end_is_left_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tool = tool_named("slow", hang(ignores=True), "write", timeout_s=0.02)
    bench = Bench(tmp_path, tool, tool_named("next", says(), "write"))
    first, second = await bench.dispatcher.run([call("slow"), call("next")])
    assert time_limits.left_behind
    assert text(second) == "done"
    while time_limits.left_behind:
        await asyncio.sleep(0.01)
    said = text(first)
    assert said.endswith("It did not end when it was told to, and may still be at work.")
    assert "left behind" in caplog.text


async def test_a_thread_that_hangs_is_told_and_left_behind(tmp_path: Path) -> None:
    over, told = threading.Event(), []

    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        def block() -> None:
            over.wait(10)
            told.append(context.cancel.is_set())

        await in_thread(block)
        return ToolOutput()

    (answer,) = await Bench(tmp_path, tool_named("t", run, timeout_s=0.02)).dispatcher.run([call("t")])
    assert "may still be at work" in text(answer)
    over.set()
    while time_limits.left_behind:
        await asyncio.sleep(0.01)
    assert told == [True]


def test_a_loop_ends_although_a_thread_hangs(tmp_path: Path) -> None:
    over = threading.Event()

    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        await in_thread(over.wait, 30)
        return ToolOutput()

    assert Bench(tmp_path, tool_named("t", run, timeout_s=0.02)).one("t").result.is_error
    assert "holdfast-wait" in {thread.name for thread in threading.enumerate()}
    over.set()


def test_what_a_thread_raises_is_an_answer(tmp_path: Path) -> None:
    def run_with(error: BaseException) -> Callable[..., Any]:
        def fail() -> None:
            raise error

        async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            await in_thread(fail)
            return ToolOutput()

        return run

    errors = [ValueError("x"), SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration()]
    tools = [tool_named(f"t{n}", run_with(error)) for n, error in enumerate(errors)]
    answers = Bench(tmp_path, *tools).run(*(call(tool.name) for tool in tools))
    assert [text(answer).split(" failed: ")[1] for answer in answers] == [
        "ValueError: x",
        "it raised SystemExit.",
        "it raised KeyboardInterrupt.",
        "it raised CancelledError.",
        "it raised StopIteration.",
    ]


def test_cancel_ends_what_runs_and_answers_what_has_not_begun(tmp_path: Path) -> None:
    cancel = Cancel()
    contexts: list[ToolContext] = []

    async def last(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        contexts.append(context)
        cancel.set()
        await asyncio.Event().wait()
        return ToolOutput()

    tools = (
        tool_named("quick", says()),
        tool_named("hangs", hang()),
        tool_named("last", last),
        tool_named("w", says(), "write"),
    )
    bench = Bench(tmp_path, *tools)
    calls = [call("quick"), call("hangs"), call("last"), call("w"), call("quick", id="again"), call("unknown")]
    answers = bench.run(*calls, cancel=cancel)
    assert [text(answer) for answer in answers] == ["done", CANCELLED, CANCELLED, NOT_BEGUN, NOT_BEGUN, NOT_BEGUN]
    assert [answer.cancelled for answer in answers] == [False, True, True, True, True, True]
    assert contexts[0].cancel.is_set()
    assert not violations(calls, answers)
    types = bench.types()
    assert (types.count("tool.called"), types.count("tool.completed"), types.count("tool.failed")) == (6, 1, 5)


def test_cancel_that_was_said_before_runs_nothing(tmp_path: Path) -> None:
    cancel = Cancel()
    cancel.set()
    bench = Bench(tmp_path, tool_named("t", raises(AssertionError()), "write"))
    assert [text(answer) for answer in bench.run(call("t"), call("u"), cancel=cancel)] == [NOT_BEGUN] * 2


def test_cancel_from_another_thread(tmp_path: Path) -> None:
    cancel = Cancel()
    bench = Bench(tmp_path, tool_named("t", hang(began=lambda: threading.Thread(target=cancel.set).start())))
    (answer,) = bench.run(call("t"), cancel=cancel)
    assert text(answer) == CANCELLED


async def test_cancel_while_a_call_waits_for_its_turn_or_for_an_answer(tmp_path: Path) -> None:
    async with asyncio.timeout(10):
        writing, cancel = asyncio.Lock(), Cancel()
        asked = asyncio.Event()

        async def ask(question: Question) -> Decision:
            asked.set()
            await asyncio.Event().wait()
            return Decision(True)

        tools = {"w": tool_named("w", says(), "write")}
        waits = dispatcher(tmp_path, tools, write_lock=writing)
        asks = dispatcher(
            tmp_path, tools, settings=ToolsSettings(), confirmations=Confirmations(ConfirmSettings(), ask=ask)
        )
        async with writing:
            runs = [asyncio.create_task(each.run([call("w")], cancel=cancel)) for each in (waits, asks)]
            await asked.wait()
            cancel.set()
            for (answer,) in await asyncio.gather(*runs):
                assert (text(answer), answer.cancelled) == (CANCELLED, True)
        assert not writing.locked()
        (answer,) = await waits.run([call("w")])
        assert text(answer) == "done"


@pytest.mark.parametrize("ignores", [False, True])
async def test_cancelling_the_run_itself_cancels_its_tools_and_propagates(tmp_path: Path, ignores: bool) -> None:
    ended: list[str] = []
    began = asyncio.Event()

    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        began.set()
        try:
            return await hang(ignores)(input, context)
        finally:
            ended.append(context.tool_use_id)

    bench = Bench(tmp_path, tool_named("a", run), tool_named("b", run), tool_named("w", says(), "write"), grace_s=5.0)
    task = asyncio.create_task(bench.dispatcher.run([call("a"), call("b"), call("w")]))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert bench.types().count("tool.failed") == 2
    assert sorted(ended) == ["toolu_a", "toolu_b"]


@pytest.mark.parametrize("first", ["late", "stop"])
async def test_cancelling_the_run_while_a_call_is_ending_leaves_nothing_behind(tmp_path: Path, first: str) -> None:
    began, ending, cancel = asyncio.Event(), asyncio.Event(), Cancel()

    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ending.set()
            await asyncio.sleep(0.02)
        return ToolOutput()

    tool = tool_named("t", run, "write", timeout_s=0.005 if first == "late" else 60)
    bench = Bench(tmp_path, tool, grace_s=5.0)
    task = asyncio.create_task(bench.dispatcher.run([call("t")], cancel=cancel))
    await began.wait()
    if first == "stop":
        cancel.set()
    await ending.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not time_limits.left_behind


def test_an_exception_that_comes_with_a_cancel_is_not_reported_as_forgotten(tmp_path: Path) -> None:
    reported: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: reported.append(about))
        bench = Bench(tmp_path, tool_named("t", raises(ValueError("at the same moment")), "write"))
        for steps in range(16):
            runs = [asyncio.create_task(bench.dispatcher.run([call(name)])) for name in ("t", "unknown")]
            for _ in range(steps):
                await asyncio.sleep(0)
            for task in runs:
                task.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    asyncio.run(main())
    gc.collect()
    assert not reported


async def test_nothing_is_left_behind_after_a_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tool_named("t", says()), tool_named("w", raises(ValueError()), "write"))
    await bench.dispatcher.run([call("t"), call("w"), call("none")], cancel=Cancel())
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_finished_output_survives_a_cancel_that_comes_too_late(tmp_path: Path) -> None:
    cancel = Cancel()

    def shape(tool: Tool, call: Any, output: ToolOutput, context: ToolContext) -> ToolOutput:
        cancel.set()
        return output

    answers = Bench(tmp_path, tool_named("t", says()), tool_named("w", says(), "write"), shape=shape).run(
        call("t"), call("w"), cancel=cancel
    )
    assert [text(answer) for answer in answers] == ["done", NOT_BEGUN]


def test_shaping_goes_one_at_a_time(tmp_path: Path) -> None:
    now, most = [0], [0]

    def shape(tool: Tool, call: Any, output: ToolOutput, context: ToolContext) -> ToolOutput:
        now[0] += 1
        most[0] = max(most[0], now[0])
        threading.Event().wait(0.005)
        now[0] -= 1
        return output

    Bench(tmp_path, tool_named("t", says()), shape=shape).run(*(call("t", id=str(n)) for n in range(8)))
    assert most == [1]
