"""Tools that come late, and the choice among them: what is refused, what a script may call, what is read and billed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from holdfast.simulator import HttpRequest, Simulator, VirtualClock, load_script

LONG = "The quick brown fox jumps over the lazy dog. " * 700
MARK = {"cache_control": {"type": "ephemeral"}}
SEARCH = {"name": "discover_tools", "input_schema": {"type": "object"}}
MAIL = {
    "name": "send_mail",
    "description": "Send a mail. " * 30,
    "input_schema": {"type": "object", "required": ["to"], "properties": {"to": {"type": "string", "const": "ada"}}},
}
LATE = MAIL | {"defer_loading": True}


def call(path: str, body: dict[str, Any]) -> HttpRequest:
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "authorization": "Bearer k"}
    return HttpRequest("POST", path, headers, {}, json.dumps(body).encode())


@pytest.fixture
def simulate(tmp_path: Path):
    def make(tool: str = "send_mail") -> Simulator:
        (tmp_path / "script.yaml").write_text(f"rules: [{{call: {{tool: {tool}}}}}]", encoding="utf-8")
        return Simulator(clock=VirtualClock(), script=load_script(str(tmp_path / "script.yaml")))

    return make


def refused(simulator: Simulator, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = simulator.answer(call(path, body))
    assert answer.status in (400, 500), answer.body
    return json.loads(answer.body)["error"]


def answered(simulator: Simulator, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = simulator.answer(call(path, body))
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


class TestAnthropic:
    path = "/v1/messages"

    def body(self, *tools: dict[str, Any], found: str | None = None, turns: int = 0) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "write to Ada"}]
        if found is not None:
            asked = {"type": "tool_use", "id": "t1", "name": "discover_tools", "input": {}}
            named = [{"type": "tool_reference", "tool_name": found}]
            result = {"type": "tool_result", "tool_use_id": "t1", "content": named}
            messages += [{"role": "assistant", "content": [asked]}, {"role": "user", "content": [result]}]
        for turn in range(turns):
            messages += [{"role": "assistant", "content": "yes"}, {"role": "user", "content": f"turn {turn}"}]
        system = [{"type": "text", "text": LONG, **MARK}]
        return {"model": "claude-opus-4-6", "max_tokens": 50, "system": system, "tools": [*tools], "messages": messages}

    def test_a_reference_to_no_tool_is_refused(self, simulate):
        error = refused(simulate(), self.path, self.body(SEARCH, LATE, found="send_male"))
        assert error == {
            "type": "invalid_request_error",
            "message": "Tool reference 'send_male' not found in available tools",
        }

    def test_a_reference_may_name_a_tool_that_is_not_deferred(self, simulate):
        assert answered(simulate(), self.path, self.body(SEARCH, MAIL, found="send_mail"))

    def test_the_word_in_a_text_is_no_reference(self, simulate):
        body = self.body(SEARCH, MAIL)
        body["messages"][0]["content"] = [{"type": "text", "text": '[{"type":"tool_reference","tool_name":"x"}]'}]
        assert answered(simulate(), self.path, body)

    def test_not_all_tools_can_be_deferred(self, simulate):
        error = refused(simulate(), self.path, self.body(LATE))
        assert error["message"] == "At least one tool must have defer_loading=false. All tools cannot be deferred."
        assert error["type"] == "invalid_request_error"

    def test_a_deferred_tool_is_called_once_it_was_found(self, simulate):
        error = refused(simulate(), self.path, self.body(SEARCH, LATE))
        assert "'send_mail', which is deferred and was not found yet (offered: discover_tools)" in error["message"]
        for turns in (0, 3):  # also when the reference stands far behind
            answer = answered(simulate(), self.path, self.body(SEARCH, LATE, found="send_mail", turns=turns))
            made = [block for block in answer["content"] if block["type"] == "tool_use"]
            assert [(block["name"], block["input"]) for block in made] == [("send_mail", {"to": "ada"})]

    def test_any_tool_may_be_the_one_that_was_found(self, simulate):
        one, other = (self.body(SEARCH, LATE, found="send_mail", turns=turns) for turns in (0, 1))
        made = [answered(simulate("any"), self.path, body)["content"][-1]["name"] for body in (one, other)]
        assert set(made) == {"discover_tools", "send_mail"}

    def test_what_was_found_is_billed_where_it_was_found_and_read_later(self, simulate):
        simulator = simulate("discover_tools")

        def usage(body: dict[str, Any]) -> tuple[int, int, int]:
            last = body["messages"][-1]
            if isinstance(last["content"], str):
                last["content"] = [{"type": "text", "text": last["content"]}]
            last["content"][-1] |= MARK
            seen = answered(simulator, self.path, body)["usage"]
            return seen["cache_read_input_tokens"], seen["cache_creation_input_tokens"], seen["input_tokens"]

        read, written, _ = usage(self.body(SEARCH, LATE))
        assert (read, written > 6_000) == (0, True)
        again, found, plain = usage(self.body(SEARCH, LATE, found="send_mail"))
        assert (again, plain) == (written, 0)
        assert found > 120  # the definition, and the call
        later, _, plain = usage(self.body(SEARCH, LATE, found="send_mail", turns=1))
        assert (later, plain) == (written + found, 0)
        changed = self.body(SEARCH, LATE | {"description": "Something else."}, found="send_mail", turns=1)
        assert usage(changed)[0] == written

    def test_counting_tokens_counts_it(self, simulate):
        counts = [
            answered(simulate(), "/v1/messages/count_tokens", self.body(SEARCH, tool, found="send_mail"))[
                "input_tokens"
            ]
            for tool in (LATE, LATE | {"description": "Send a mail."})
        ]
        assert counts[0] > counts[1] + 80


class TestResponses:
    path = "/v1/responses"
    late: ClassVar[dict[str, Any]] = {
        "type": "additional_tools",
        "role": "developer",
        "tools": [{"type": "function", "name": "send_mail"}],
    }
    search: ClassVar[dict[str, Any]] = {"type": "function", "name": "discover_tools", "parameters": {"type": "object"}}

    def body(self, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
        said = {"role": "user", "content": "write to Ada"}
        tools = [{"type": "function", "name": "discover_tools", "parameters": {"type": "object"}}]
        return {"model": "gpt-5.6", "instructions": LONG, "tools": tools, "input": [said, *items], **more}

    def calls(self, simulator: Simulator, body: dict[str, Any]) -> list[str]:
        items = answered(simulator, self.path, body)["output"]
        return [item["name"] for item in items if item["type"] == "function_call"]

    def test_later_tools_are_offered_from_there_on(self, simulate):
        assert "does not offer" in refused(simulate(), self.path, self.body())["message"]
        assert self.calls(simulate(), self.body(self.late)) == ["send_mail"]
        turns = [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "and now?"}] * 2
        assert self.calls(simulate(), self.body(self.late, *turns)) == ["send_mail"]

    def test_they_are_tools_also_where_there_are_no_others(self, simulate):
        assert self.calls(simulate(), self.body(self.late, tools=[])) == ["send_mail"]

    def test_they_come_from_the_developer(self, simulate):
        error = refused(simulate(), self.path, self.body(self.late | {"role": "user"}))
        assert (error["param"], error["code"]) == ("input[1].role", "invalid_value")
        assert "'developer'" in error["message"]
        error = refused(simulate(), self.path, self.body({"type": "additional_tools", "role": "developer"}))
        assert error["param"] == "input[1].tools"

    def test_the_prefix_before_them_is_read_and_they_are_written(self, simulate):
        simulator = simulate("discover_tools")
        first = answered(simulator, self.path, self.body())["usage"]["input_tokens_details"]
        said = [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "go on"}]
        second = answered(simulator, self.path, self.body(self.late, *said))["usage"]["input_tokens_details"]
        third = answered(simulator, self.path, self.body(self.late, *said, *said))["usage"]["input_tokens_details"]
        assert (first["cached_tokens"], first["cache_write_tokens"] > 6_000) == (0, True)
        assert second["cached_tokens"] == first["cache_write_tokens"]
        assert second["cache_write_tokens"] > 0
        assert third["cached_tokens"] == second["cached_tokens"] + second["cache_write_tokens"]

    def test_the_provider_s_own_search_loads_deferred_ones(self, simulate):
        deferred = [self.search, {"type": "function", "name": "send_mail", "defer_loading": True}]
        assert "was not found yet" in refused(simulate(), self.path, self.body(tools=deferred))["message"]
        loaded = {"type": "tool_search_output", "execution": "server", "tools": [deferred[1]]}
        said = [{"role": "user", "content": "go on"}]
        assert self.calls(simulate(), self.body(loaded, *said, tools=deferred)) == ["send_mail"]

    def test_only_allowed_tools_are_offered(self, simulate):
        def allow(*names: str) -> dict[str, Any]:
            tools = [{"type": "function", "name": name} for name in names]
            return {"type": "allowed_tools", "mode": "auto", "tools": tools}

        both = self.body(self.late, tool_choice=allow("send_mail", "discover_tools"))
        assert self.calls(simulate(), both) == ["send_mail"]
        only = self.body(self.late, tool_choice=allow("discover_tools"))
        assert "(offered: discover_tools)" in refused(simulate(), self.path, only)["message"]
        turns = [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "and now?"}]
        assert self.calls(simulate("any"), self.body(*turns, tool_choice=allow("discover_tools"))) == ["discover_tools"]


class TestChat:
    path = "/v1/chat/completions"

    @pytest.mark.parametrize("turns", [0, 2])
    def test_only_allowed_tools_are_offered(self, simulate, turns):
        tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("send", "read")]
        messages = [{"role": "user", "content": "go"}]
        for _ in range(turns):
            messages += [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "on"}]
        body = {"model": "gpt-5.6", "messages": messages, "tools": tools}
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tools[1]]}}
        made = answered(simulate("any"), self.path, body | {"tool_choice": choice})["choices"][0]["message"]
        assert [each["function"]["name"] for each in made["tool_calls"]] == ["read"]
        assert "(offered: read)" in refused(simulate("send"), self.path, body | {"tool_choice": choice})["message"]
        none = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}
        assert "offers none" in refused(simulate("any"), self.path, body | {"tool_choice": none})["message"]
