"""A successful output is offloaded first and gets its guide then; a failed one gets neither."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config.sections.agent import OffloadSettings, ToolsSettings
from holdfast.records import Image, Text, ToolResult, ToolUse
from holdfast.records.events import Bus, Event
from holdfast.records.events.tools import GuideDelivered, ToolOffloaded
from holdfast.tools.builtin.files import read_file
from holdfast.tools.contract import Cancel, Tool, ToolAnswer, ToolContext, ToolExecutionError, ToolOutput
from holdfast.tools.guides import Guides, GuideSection, wrapped
from holdfast.tools.offload import PREFIX, Offloader, directory_of, is_reference
from holdfast.tools.results import ResultPipeline
from holdfast.tools.workspace import Workspace
from tests.support.toolboxes import dispatcher
from tests.tools.offloads import tool

LONG = "".join(f"{number:07d}\n" for number in range(20_000))


class Session:
    """One session's parts: a workspace, its offload directory, and what was told."""

    def __init__(self, tmp_path: Path, guides: Guides | None = None) -> None:
        (tmp_path / "work").mkdir()
        self.offloader = Offloader(OffloadSettings(), directory_of(tmp_path / "home", "session/1"))
        self.workspace = Workspace(tmp_path / "work", offloads=[self.offloader.directory])
        self.guides = guides or Guides()
        self.told: list[Event] = []
        self.results = ResultPipeline(self.offloader, self.guides)

    def context(self, call: str = "t1") -> ToolContext:
        return ToolContext(
            session="session/1", tool_use_id=call, workspace=self.workspace, cancel=Cancel(), emit=self.told.append
        )

    def shaped(self, tool: Tool, output: ToolOutput, call: str = "t1") -> ToolOutput:
        return self.results.shape(tool, ToolUse(call, tool.name, b"{}"), output, self.context(call))

    def read(self, **input: Any) -> ToolOutput:
        one = read_file(self.offloader.settings)
        return self.shaped(one, asyncio.run(self._run(one, input)), "r")

    async def _run(self, one: Tool, input: dict[str, Any]) -> ToolOutput:
        return await one.run(input, self.context())


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Session]:
    return lambda guides=None: Session(tmp_path, guides)


def text_of(output: ToolOutput) -> str:
    return "".join(block.text for block in output.blocks if isinstance(block, Text))


def named_in(output: ToolOutput) -> str:
    first = text_of(output).split("\n")[0]
    assert first.startswith(PREFIX)
    return first.removesuffix("]").rpartition(" characters, ")[2]


def test_c17_a_long_output_is_on_disk_before_it_is_a_result(make: Callable[..., Session]) -> None:
    session = make()
    output = ToolOutput(content=LONG, metadata={"exit_code": 0}, files_modified=("a",), command_executed="make")
    shaped = session.shaped(tool(), output)
    assert is_reference(text_of(shaped))
    assert Path(named_in(shaped)).read_text() == LONG
    assert msgspec.structs.replace(shaped, content=LONG) == output  # all but the content is as it was
    assert session.told == [
        ToolOffloaded(tool="run_command", tool_use_id="t1", characters=len(LONG), path=named_in(shaped))
    ]


def test_c39_the_rest_is_read_at_the_path_that_the_reference_names(make: Callable[..., Session]) -> None:
    session = make()
    path = named_in(session.shaped(tool(), ToolOutput(content=LONG)))
    middle = session.read(path=path, offset=10_001, limit=100)
    assert text_of(middle).startswith("".join(f"{number:07d}\n" for number in range(10_000, 10_100)))
    pages, line = "", 1
    while len(pages) < len(LONG):
        page = text_of(session.read(path=path, offset=line))
        pages += page.rpartition("[")[0] if "[Lines" in page else page
        line = pages.count("\n") + 1
    assert pages == LONG


def test_c39_what_was_read_from_an_offloaded_result_is_not_offloaded_again(make: Callable[..., Session]) -> None:
    session = make()
    path = named_in(session.shaped(tool(), ToolOutput(content=LONG)))
    before = session.offloader.directory.stat().st_mtime_ns
    page = session.read(path=path, limit=10_000)
    assert len(text_of(page)) > 50_000
    assert not is_reference(text_of(page))
    assert session.offloader.directory.stat().st_mtime_ns == before


def test_c39_an_offloaded_image_is_seen_by_reading_it(make: Callable[..., Session]) -> None:
    session = make()
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100
    image = Image("image/png", base64.b64encode(picture).decode())
    path = named_in(session.shaped(tool("screenshot"), ToolOutput(content=(image,))))
    assert session.read(path=path).blocks == (image,)


def test_what_an_output_says_of_itself_exempts_it_unless_it_comes_from_a_server(make: Callable[..., Session]) -> None:
    session = make()
    output = ToolOutput(content=LONG, metadata={"exempt_from_offload": True})
    assert session.shaped(tool(), output) is output
    assert is_reference(text_of(session.shaped(tool("mcp__a__b", source="mcp"), output)))
    almost = ToolOutput(content=LONG, metadata={"exempt_from_offload": "no"})
    assert is_reference(text_of(session.shaped(tool(), almost)))


def test_c24_a_guide_is_given_with_the_first_result_and_not_before(make: Callable[..., Session]) -> None:
    session = make(Guides({"run_command": "Quote paths."}))
    first = session.shaped(tool(), ToolOutput(content="ok"))
    assert first.blocks == (Text("ok"), Text(wrapped("Quote paths.")))
    second = ToolOutput(content="ok")
    assert session.shaped(tool(), second, "t2") is second
    assert session.told == [GuideDelivered(tool="run_command", tool_use_id="t1")]


def test_c44_offloading_never_cuts_a_guide(make: Callable[..., Session]) -> None:
    guide = "A very long guide. " * 5_000
    session = make(Guides({}, [GuideSection(name="s", text=guide, tools=("run_command",))]))
    shaped = session.shaped(tool(guide="Its own."), ToolOutput(content=LONG))
    reference, own, section = shaped.blocks
    assert isinstance(reference, Text)
    assert is_reference(reference.text)
    assert (own, section) == (Text(wrapped("Its own.")), Text(wrapped(guide)))
    assert Path(named_in(shaped)).read_text() == LONG
    assert [event.type for event in session.told] == ["tool.offloaded", "guide.delivered", "guide.delivered"]


def test_c42_a_result_that_comes_by_again_is_left_alone(make: Callable[..., Session]) -> None:
    session = make(Guides({"run_command": "Quote paths."}))
    shaped = session.shaped(tool(), ToolOutput(content=LONG))
    assert session.shaped(tool(), shaped) is shaped


def test_a_guide_can_follow_an_output_without_content(make: Callable[..., Session]) -> None:
    session = make(Guides({"run_command": "Quote paths."}))
    assert session.shaped(tool(), ToolOutput()).blocks == (Text(wrapped("Quote paths.")),)


def test_without_parts_nothing_is_done(make: Callable[..., Session]) -> None:
    output, call = ToolOutput(content=LONG), ToolUse("t", "t", b"{}")
    assert ResultPipeline(None, None).shape(tool(guide="g"), call, output, make().context()) is output


# In the dispatcher


class Scripted:
    """A tool whose calls end as they are told to."""

    def __init__(self, **members: Any) -> None:
        self.tool = Tool(name="scripted", description="", run=self.run, effect="read", **members)

    async def run(self, input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        if input.get("fail"):
            raise ToolExecutionError("it did not work")
        return ToolOutput(content=input.get("say", "ok") * input.get("times", 1))


def results_of(session: Session, one: Tool, *inputs: Mapping[str, Any], **members: Any) -> list[ToolResult]:
    async def run() -> tuple[ToolAnswer, ...]:
        agent = dispatcher(
            session.workspace,
            {one.name: one},
            settings=ToolsSettings(),
            session="session/1",
            results=session.results,
            **members,
        )
        calls = [ToolUse(f"t{at}", one.name, msgspec.json.encode(each)) for at, each in enumerate(inputs)]
        return await agent.run(calls)

    return [answer.result for answer in asyncio.run(run())]


def test_c48_a_failed_call_does_not_use_up_the_guide(make: Callable[..., Session]) -> None:
    session = make(Guides({}, [GuideSection(name="s", text="section", tools=("scripted",))]))
    one = Scripted(guide="guide").tool
    (failed,) = results_of(session, one, {"fail": True})
    assert failed.is_error
    assert failed.content == (Text("it did not work"),)
    assert session.guides.delivered == frozenset()
    (retried,) = results_of(session, one, {})
    assert retried.content == (Text("ok"), Text(wrapped("guide")), Text(wrapped("section")))
    (again,) = results_of(session, one, {})
    assert again.content == (Text("ok"),)


def test_c46_of_parallel_calls_one_result_has_the_guide(make: Callable[..., Session]) -> None:
    session = make()
    results = results_of(session, Scripted(guide="guide").tool, *[{"say": str(at)} for at in range(6)])
    assert [result.content[0] for result in results] == [Text(str(at)) for at in range(6)]
    assert sorted(len(result.content) for result in results) == [1, 1, 1, 1, 1, 2]


def test_c17_a_call_is_answered_by_the_reference_and_never_by_the_long_text(make: Callable[..., Session]) -> None:
    session = make()
    bus = Bus()
    heard = bus.subscribe()
    one = Scripted(guide="guide").tool
    short, long, more = results_of(
        session, one, {"times": 4_000}, {"times": 4_001}, {"say": "😀", "times": 200_000}, bus=bus
    )
    told = [event.payload for event in heard.drain()]
    bus.close()
    assert short.content[0] == Text("ok" * 4_000)
    for result, text in ((long, "ok" * 4_001), (more, "😀" * 200_000)):
        assert isinstance(result.content[0], Text)
        assert is_reference(result.content[0].text)
        (event,) = [one for one in told if isinstance(one, ToolOffloaded) and one.tool_use_id == result.tool_use_id]
        assert event.characters == len(text)
        assert f"{event.characters} characters, {event.path}]" in result.content[0].text
        assert Path(event.path).read_text() == text
    assert sum(isinstance(event, GuideDelivered) for event in told) == 1
