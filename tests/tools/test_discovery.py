"""discover_tools and call_tool on the owner of the tools array, with every carrier and a simulated provider."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from holdfast.config.sections.agent import DeferralSettings, ToolsSettings
from holdfast.facts import estimate_json
from holdfast.facts import model as model_facts
from holdfast.records import Message, Opaque, Request, Text, ToolResult, ToolUse
from holdfast.records.events import Event
from holdfast.records.events.tools import ToolDiscovered
from holdfast.simulator import HttpRequest, Simulator, VirtualClock, load_script
from holdfast.tools.contract import Cancel, ResolvedCall, Tool, ToolContext, ToolExecutionError, ToolOutput
from holdfast.tools.discovery import discovery_tools
from holdfast.tools.toolset import ToolSet
from holdfast.tools.workspace import Workspace
from holdfast.wire import DIALECTS
from holdfast.wire.prompts import PromptReader
from tests.tools.catalogue import catalogue, made
from tests.wire.marked_bodies import encoded

MODELS = {
    "references": ("anthropic:claude-opus-4-6", "anthropic"),
    "additional": ("openai:gpt-5.6", "openai_responses"),
    "call_tool": ("openai:gpt-5.6", "openai_chat"),
    "redeclare": ("anthropic:claude-opus-4-6", "anthropic"),
}
DECLARED = made("read_file", "Read a file.", "path", core=True, source="builtin")


class Session:
    """A session's tools, and what was told of them."""

    def __init__(self, carrier: str, workspace: Path, tools: list[Tool] | None = None) -> None:
        model, dialect = MODELS[carrier]
        settings = ToolsSettings(
            deferral=DeferralSettings(mode="always", carrier="redeclare" if carrier == "redeclare" else "auto")
        )
        offered = [DECLARED, *(catalogue() if tools is None else tools)]
        self.set = ToolSet(offered, settings=settings, model=model, dialect=dialect)
        assert self.set.carrier == carrier
        self.told: list[Event] = []
        self.context = ToolContext(
            session="s", tool_use_id="t1", workspace=Workspace(workspace), cancel=Cancel(), emit=self.told.append
        )

    def discover(self, query: str, **more: Any) -> ToolOutput:
        meant = self.set.resolve(ToolUse("t1", "discover_tools", json.dumps({"query": query, **more}).encode()))
        assert isinstance(meant, ResolvedCall)
        return asyncio.run(meant.tool.run(meant.input, self.context))


def said(output: ToolOutput) -> str:
    return "\n".join(block.text for block in output.blocks if isinstance(block, Text))


@pytest.fixture(params=list(MODELS))
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return Session(request.param, tmp_path)


# What is found


def test_c51_what_is_found_becomes_callable(session: Session) -> None:
    call = ToolUse("t2", "mcp__github__create_issue", b"{}")
    if session.set.carrier != "call_tool":
        assert not isinstance(session.set.resolve(call), ResolvedCall)
    output = session.discover("create issue", limit=2)
    assert output.metadata["found"][0] == "mcp__github__create_issue"
    assert len(output.metadata["found"]) == 2
    if session.set.carrier == "redeclare":
        session.set.redeclare()
    meant = session.set.resolve(call)
    assert isinstance(meant, ResolvedCall)
    assert meant.tool.name == "mcp__github__create_issue"


def test_c61_each_carrier_answers_in_its_own_way(session: Session) -> None:
    before = session.set.definitions()
    output = session.discover("select:send_email,get_weather")
    text = said(output)
    short = "[Discovery loaded: 2 tool(s) are now callable]\n- send_email\n- get_weather"
    match session.set.carrier:
        case "references":
            assert [block.raw for block in output.blocks if isinstance(block, Opaque)] == [
                b'{"type":"tool_reference","tool_name":"send_email"}',
                b'{"type":"tool_reference","tool_name":"get_weather"}',
            ]
        case "additional":
            (message,) = output.messages
            (item,) = message.content
            assert isinstance(item, Opaque)
            assert [tool["name"] for tool in json.loads(item.raw)["tools"]] == ["send_email", "get_weather"]
            assert text == short
        case "call_tool":
            assert text.startswith("<functions>\n<function>{")
            assert text.endswith("</functions>")
        case "redeclare":
            assert text == short
    assert session.set.definitions() == before


def test_the_event_names_what_is_new(session: Session) -> None:
    session.discover("select:send_email,get_weather")
    session.discover("select:send_email,get_weather,make_qr_code")
    session.discover("photosynthesis")
    assert session.told == [
        ToolDiscovered(tools=("send_email", "get_weather"), tool_use_id="t1"),
        ToolDiscovered(tools=("make_qr_code",), tool_use_id="t1"),
    ]


def test_what_was_found_before_is_only_named(session: Session) -> None:
    session.discover("dim the lamps", limit=1)
    again = session.discover("dim the lamps", limit=1)
    assert said(again) == "[Discovery loaded: 1 tool(s) are now callable]\n- mcp__home__lights.set"
    assert (again.messages, again.metadata["new"]) == ((), [])
    both = session.discover("lamps brightness vacuum robot", limit=2)
    assert both.metadata["new"] == ["mcp__home__vacuum.start"]
    if session.set.carrier == "references":  # which have to stand alone
        assert [json.loads(block.raw)["tool_name"] for block in both.blocks if isinstance(block, Opaque)] == [
            "mcp__home__vacuum.start"
        ]
        assert len(both.blocks) == 1
    else:
        assert said(both).endswith("\nCallable already: mcp__home__lights.set.")


def test_a_schema_that_stands_in_answers_alone_can_be_asked_for_again(tmp_path: Path) -> None:
    session = Session("call_tool", tmp_path)
    first, again = (said(session.discover("select:send_email")) for _ in range(2))
    assert first == again
    assert "<functions>" in again


def test_after_a_reset_it_is_found_anew(session: Session) -> None:
    first = session.discover("select:send_email").blocks
    session.set.at_reset()
    assert session.discover("select:send_email").blocks == first


# What is not found


def test_nothing_found_is_a_plain_sentence_with_what_there_is(session: Session) -> None:
    output = session.discover("photosynthesis")
    assert said(output) == (
        "No tool matches 'photosynthesis'. 63 tool(s) can be found, also of billing, browser, calendar, github, home, "
        "kubernetes, postgres, slack: try other words, or the name of a server."
    )
    assert session.told == []


def test_names_that_do_not_exist_are_told(session: Session) -> None:
    text = said(session.discover("select:nope,neither"))
    assert text.startswith("There is no tool named nope, neither to be found. 63 tool(s) can be found")
    if session.set.carrier != "references":
        assert said(session.discover("select:nope,send_email")).endswith("There is no tool named nope to be found.")
    assert session.discover("select:nope,get_weather").metadata["unknown"] == ["nope"]


def test_declared_tools_are_callable_already(session: Session) -> None:
    assert said(session.discover("select:read_file")) == ("[Discovery loaded: 1 tool(s) are now callable]\n- read_file")
    assert session.told == []


def test_a_server_with_more_tools_than_asked_for_says_so(tmp_path: Path) -> None:
    text = said(Session("call_tool", tmp_path).discover("github", limit=4))
    assert text.endswith("8 more tool(s) of this server are left out; raise the limit or search by words.")
    only = Session("call_tool", tmp_path, [tool for tool in catalogue() if tool.server == "home"])
    assert said(only.discover("server:attic")).endswith(
        "5 tool(s) can be found of the server(s) home: try other words, or the name of a server."
    )


def test_without_further_tools_that_is_said(tmp_path: Path) -> None:
    offered = Session("call_tool", tmp_path)
    offered.set.remove([tool.name for tool in catalogue()])
    assert said(offered.discover("anything")) == "There are no further tools to be found: all that exist are declared."


@pytest.mark.parametrize("query", ['"', "a:b (", "😀", "x" * 10_240, "", "half \ud83d"], ids=ascii)
def test_odd_queries_get_an_answer(session: Session, query: str) -> None:
    output = session.discover(query)
    assert output.blocks
    said(output).encode()


def test_without_the_library_names_still_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    session = Session("call_tool", tmp_path)
    assert "send_email" in said(session.discover("select:send_email"))
    with pytest.raises(ToolExecutionError, match=r"pip install 'holdfast\[agent\]'"):
        session.discover("send a mail")


# Tools that come and go


def test_the_index_follows_the_set(session: Session) -> None:
    assert session.discover("zebra").metadata["found"] == []
    session.set.add([made("mcp__zoo__feed_zebra", "Feed the zebra.", "", source="mcp", server="zoo")])
    assert session.discover("zebra").metadata["found"] == ["mcp__zoo__feed_zebra"]
    session.set.remove(["mcp__zoo__feed_zebra"])
    assert session.discover("zebra").metadata["found"] == []


def test_a_search_answers_with_the_tools_of_its_end(tmp_path: Path) -> None:
    """The set changes while the index is made in a thread beside."""
    session = Session("call_tool", tmp_path)
    (discover, _) = discovery_tools(session.set)

    async def both() -> ToolOutput:
        searching = asyncio.ensure_future(discover.run({"query": "zebra lamps"}, session.context))
        await asyncio.sleep(0)
        session.set.add([made("feed_zebra", "Feed the zebra.", "")])
        session.set.remove(["mcp__home__lights.set"])
        return await searching

    found = asyncio.run(both()).metadata["found"]
    assert "feed_zebra" in found
    assert "mcp__home__lights.set" not in found


# The two tools themselves


def test_both_are_core_and_lean(tmp_path: Path) -> None:
    discover, call = discovery_tools(Session("call_tool", tmp_path).set)
    assert (discover.name, discover.effect, discover.core, discover.exempt) == ("discover_tools", "read", True, True)
    assert (call.name, call.core) == ("call_tool", True)
    sizes = [estimate_json(f"{tool.description}{tool.input_schema.decode()}".encode()) for tool in (discover, call)]
    assert sum(sizes) < 200
    for tool in (discover, call):
        jsonschema.Draft202012Validator.check_schema(json.loads(tool.input_schema))


@pytest.mark.parametrize(
    ("input", "valid"),
    [
        ({"query": "x"}, True),
        ({"query": "x", "limit": 20}, True),
        ({"query": "x", "limit": 0}, False),
        ({"query": "x", "limit": 21}, False),
        ({"limit": 3}, False),
        ({"query": "x", "more": 1}, False),
    ],
)
def test_the_input_of_discover_tools(tmp_path: Path, input: dict[str, Any], valid: bool) -> None:
    discover, _ = discovery_tools(Session("call_tool", tmp_path).set)
    assert jsonschema.Draft202012Validator(json.loads(discover.input_schema)).is_valid(input) is valid


def test_call_tool_means_another_and_never_runs_itself(tmp_path: Path) -> None:
    session = Session("call_tool", tmp_path)
    meant = session.set.resolve(ToolUse("t", "call_tool", b'{"name":"send_email","arguments":{"to":"ada"}}'))
    assert isinstance(meant, ResolvedCall)
    assert (meant.tool.name, meant.input, meant.via) == ("send_email", {"to": "ada"}, "call_tool")
    _, call = discovery_tools(session.set)
    with pytest.raises(ToolExecutionError, match="was not resolved to the tool it names"):
        asyncio.run(call.run({"name": "send_email", "arguments": {}}, session.context))


# A provider that knows late tools


@pytest.mark.parametrize("carrier", ["references", "additional"])
def test_c53_a_provider_lets_the_model_call_what_was_found(tmp_path: Path, carrier: str) -> None:
    session = Session(carrier, tmp_path)
    model, name = MODELS[carrier]
    dialect = DIALECTS[name]
    path = "/v1/messages" if name == "anthropic" else "/v1/responses"
    (tmp_path / "script.yaml").write_text("rules: [{call: {tool: send_email}}]", encoding="utf-8")
    simulator = Simulator(clock=VirtualClock(), script=load_script(str(tmp_path / "script.yaml")))

    def post(*messages: Message) -> tuple[int, dict[str, Any], bytes]:
        request = Request(
            model=model,
            system_prompt="Be brief. " * 3_000,
            tools=session.set.definitions(),
            messages=(Message("user", (Text("write to Ada"),)), *messages),
            output_limit=100,
        )
        raw = encoded(request, name)
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "authorization": "Bearer k"}
        answer = simulator.answer(HttpRequest("POST", path, headers, {}, raw))
        return answer.status, json.loads(answer.body), raw

    status, body, before = post()
    assert (status, "send_email" in body["error"]["message"]) == (500, True)
    output = session.discover("mail with attachments", limit=1)
    asked = Message("assistant", (ToolUse("t1", "discover_tools", b'{"query":"mail"}'),))
    role = "user" if name == "anthropic" else "tool"
    status, body, after = post(asked, Message(role, (ToolResult("t1", output.blocks),)), *output.messages)
    assert status == 200, body
    answered = body["content"] if name == "anthropic" else body["output"]
    assert [item["name"] for item in answered if item["type"] in ("tool_use", "function_call")] == ["send_email"]
    one, two = (PromptReader().read(dialect.parse(raw), model_facts(model)).prompt for raw in (before, after))
    assert two.keys[: len(one.keys)] == one.keys  # nothing that was sent before has changed
    assert two.tokens - one.tokens > 40  # the definition is counted where it was found
