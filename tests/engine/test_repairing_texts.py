"""Values, memories and ends of system texts: first bytes are kept, news is told once and told again for ever."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from holdfast.core.repairs import ByteMemory, Mode
from holdfast.engine.repairs import order
from holdfast.engine.repairs import texts as repair_texts
from holdfast.lab import FAULTS
from tests.engine.repair_lane import TOOLS, Lane, bodies, clock, extends, names, said, talk, timed, turned

from .repair_lane import MODELS

# Values in the system text


def test_the_first_value_stays_and_the_current_one_is_told_once_and_replayed() -> None:
    lane = Lane().after(talk(0, clock(0)))
    second = lane.send(talk(1, clock(1)))
    assert json.loads(second.raw)["system"] == clock(0)
    assert said(second) == ["question 1", "Current values: Current time: 2026-11-02T09:01:00.000+00:00"]
    third = lane.send(talk(2, clock(1)))
    assert said(third) == ["question 2"]  # told already
    assert said(third, 4) == said(second)
    fourth = lane.send(talk(3, clock(0)))
    assert said(fourth)[1:] == ["Current values: Current time: 2026-11-02T09:00:00.000+00:00"]
    assert lane.breaks() == []
    assert set(second.new) == {lane.state.texts[0].patch, *(i.text for i in lane.state.inserts[key(lane, 0)])}


def key(lane: Lane, number: int) -> bytes:
    return list(lane.state.inserts)[number]


def test_inside_a_tool_loop_results_stay_first() -> None:
    lane = Lane().after(talk(0, clock(0)))
    request = talk(1, clock(1))
    request["messages"] = request["messages"][:3]
    assert said(lane.send(request)) == ["tool_result", "Current values: Current time: 2026-11-02T09:01:00.000+00:00"]
    lane.send(talk(1, clock(1)))
    assert lane.breaks() == []


def test_behind_an_answer_that_has_begun_nothing_is_told_and_values_stay_where_the_client_says_them() -> None:
    lane = Lane().after(talk(0, clock(0)), talk(1, clock(1)))

    def begun(minute: int) -> Any:
        request = talk(2, clock(minute))
        request["messages"].append({"role": "assistant", "content": "It"})
        return request

    done = lane.send(begun(2))
    assert (json.loads(done.raw), done.reset) == (begun(2), "bypassed")
    assert lane.send(talk(2, clock(2))).reset == "bypassed"  # it comes back to what was sent before
    same = lane.send(begun(2))
    assert (json.loads(same.raw)["system"], same.reset) == (clock(0), None)  # there is nothing to tell


def test_a_turn_sent_again_is_told_what_has_changed_since_behind_what_it_said() -> None:
    lane = Lane().after(talk(0, clock(0)))
    first = lane.send(talk(1, clock(1)))
    assert lane.send(talk(1, clock(1))).raw == first.raw
    again = lane.send(talk(1, clock(5)))
    assert said(again) == [*said(first), "Current values: Current time: 2026-11-02T09:05:00.000+00:00"]
    back = lane.send(talk(1, clock(0)))
    assert said(back) == [*said(again), "Current values: Current time: 2026-11-02T09:00:00.000+00:00"]
    later = lane.send(talk(2, clock(0)))
    assert said(later) == ["question 2"]
    assert lane.breaks() == []


def test_a_turn_with_two_answers_is_told_in_front_of_each_what_was_told_there() -> None:
    """A turn is sent again after the conversation went on from its first answer; then both go on."""
    lane = Lane().after(talk(0, clock(0)), talk(1, clock(1)))
    one = lane.send(talk(2, clock(1)))
    fork = lane.send(talk(1, clock(5)))
    other = talk(2, clock(5))
    other["messages"][5] = {"role": "assistant", "content": "another answer"}
    del other["messages"][6:8]
    went = lane.send(other)
    assert said(went, 4) == said(fork)
    assert extends(lane.prompts[3], lane.prompts[4])
    on = lane.send(talk(3, clock(5)))
    assert said(on, 4) == said(one, 4)
    assert extends(lane.prompts[2], lane.prompts[5])
    assert said(on) == ["question 3", "Current values: Current time: 2026-11-02T09:05:00.000+00:00"]


def test_a_turn_that_is_sent_again_too_often_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_texts, "MOST_BEHIND", 3)
    lane = Lane().after(talk(0, clock(0)))
    resets = [lane.send(talk(1, clock(minute))).reset for minute in range(1, 6)]
    assert resets == [None, None, None, "repair_forgotten", None]
    assert json.loads(lane.send(talk(1, clock(4))).raw)["system"] == clock(4)


def test_a_fork_is_told_what_its_own_history_does_not_say() -> None:
    lane = Lane().after(talk(0, clock(0)), talk(1, clock(1)), talk(2, clock(2)))
    fork = talk(1, clock(2))
    fork["messages"][-1]["content"] = "another question"
    done = lane.send(fork)
    assert said(done) == ["another question", "Current values: Current time: 2026-11-02T09:02:00.000+00:00"]
    on = lane.send(talk(3, clock(2)))
    assert said(on) == ["question 3"]
    assert extends(lane.prompts[2], lane.prompts[4])


def test_the_same_words_said_twice_are_two_places() -> None:
    lane = Lane()

    def same(turns: int, minute: int) -> dict[str, Any]:
        request = talk(turns, clock(minute))
        for message in request["messages"]:
            if isinstance(message["content"], str):
                message["content"] = "go on"
        return request

    for turn in range(5):
        lane.send(same(turn, turn))
    assert lane.breaks() == []
    done = lane.send(same(5, 9))
    times = [said(done, 4 * turn)[1:] for turn in range(6)]
    assert times[0] == []
    assert [each[0][-18:-13] for each in times[1:]] == ["09:01", "09:02", "09:03", "09:04", "09:09"]


def test_lanes_that_share_a_memory_do_not_mix() -> None:
    disk: dict[bytes, bytes] = {}
    memory = ByteMemory(load=disk.get)
    one, other = Lane(memory=memory), Lane(memory=memory)
    for turn in range(4):
        one.send(talk(turn, clock(turn)))
        other.send(talk(turn, clock(10 + turn), tools=list(reversed(TOOLS))))
    assert one.breaks() == other.breaks() == []
    assert names(other.send(talk(4, clock(14), tools=TOOLS))) == ["read", "edit", "bash"]
    assert "09:1" not in json.dumps(json.loads(one.send(talk(4, clock(4))).raw)["messages"])


def test_a_restart_replays_from_the_disk() -> None:
    lane = Lane().after(*(talk(turn, clock(turn)) for turn in range(3)))
    before = lane.send(talk(3, clock(3)))
    lane.restart()
    assert lane.send(talk(3, clock(3))).raw == before.raw
    lane.restart()
    done = lane.send(talk(4, clock(4)))
    assert (lane.breaks(), done.reset) == ([], None)


def test_a_restart_without_the_disk_begins_anew_and_says_so() -> None:
    lane = Lane().after(*(talk(turn, clock(turn)) for turn in range(3)))
    lane.restart(durable=False)
    lost = lane.send(talk(3, clock(3)))
    assert (json.loads(lost.raw)["system"], lost.reset) == (clock(3), "repair_forgotten")
    assert "Current values" not in lost.raw.decode()
    lane.send(talk(4, clock(4)))
    assert lane.breaks() == [3]


def test_a_restart_before_anything_was_repaired_is_no_reset() -> None:
    lane = Lane().after(talk(0, clock(0)))
    lane.restart()
    done = lane.send(talk(1, clock(1)))
    assert (json.loads(done.raw)["system"], done.reset) == (clock(1), None)
    lane.send(talk(2, clock(2)))
    assert lane.breaks() == [1]


def test_an_instruction_that_changes_is_not_kept_back() -> None:
    lane = Lane().after(talk(0, "Be brief.\nUse British spelling."))
    raw = json.dumps(talk(1, "Be brief.\nUse American spelling.")).encode()
    assert lane.send(raw).raw == raw


def test_where_a_text_begins_anew_nothing_stands_that_was_told_of_it() -> None:
    lane = Lane().after(talk(0, clock(0)), talk(1, clock(1)))
    raw = json.dumps(talk(2, "Be kind.\n" + clock(2))).encode()
    assert lane.send(raw).raw == raw
    done = lane.send(talk(3, "Be kind.\n" + clock(3)))
    assert said(done) == ["question 3", "Current values: Current time: 2026-11-02T09:03:00.000+00:00"]
    assert lane.breaks() == [2]


def test_orders_of_keys_that_are_found_where_a_text_begins_anew_are_new() -> None:
    lane = Lane().after(talk(0, clock(0)), talk(1, clock(1)))
    assert lane.send(turned(talk(2, "Be kind.\n" + clock(2)))).ordered


def test_a_text_that_moves_behind_another_one_is_not_contradicted() -> None:
    lane = Lane().after(talk(0, clock(0)), talk(1, clock(1)))
    raw = json.dumps(talk(2, [{"type": "text", "text": text} for text in ("Be kind.", clock(2))])).encode()
    assert lane.send(raw).raw == raw
    raw = json.dumps(talk(3, tools=TOOLS) | {"system": []}).encode()
    assert lane.send(raw).raw == raw


def test_values_that_look_alike_stay_where_they_are() -> None:
    """Two lines with the same words around their values: what is told of one might be taken for the other, even if only
    one of them has changed."""
    lane = Lane()

    def system(one: int, two: int) -> str:
        return f"Be brief.\nIt is 09:{one:02} now.\nBe kind.\nIt is 09:{two:02} now."

    for turn, minutes in enumerate(((0, 1), (2, 3), (2, 4), (2, 3), (2, 3))):
        raw = json.dumps(talk(turn, system(*minutes))).encode()
        assert lane.send(raw).raw == raw


def system_blocks(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in ("You are an agent.", *texts)]


@pytest.mark.parametrize("mode", ["values", "on"])
def test_values_that_look_alike_in_two_texts_stay_where_they_are(mode: Mode) -> None:
    lane = Lane(mode=mode)
    for turn in range(3):
        texts = (f"{name}.\nCurrent time: 09:{minute:02}" for name, minute in (("Staging", turn), ("Production", 7)))
        raw = json.dumps(talk(turn, system_blocks(*texts))).encode()
        assert lane.send(raw).raw == raw


def test_a_value_that_was_told_stays_no_longer_once_another_text_has_the_like() -> None:
    lane = Lane().after(talk(0, system_blocks("Staging.\nDeployed 09:00", "Production.")))
    assert "09:01" in said(lane.send(talk(1, system_blocks("Staging.\nDeployed 09:01", "Production."))))[1]
    for turn, minute in ((2, 2), (3, 0)):  # another value, and the first one again
        raw = json.dumps(talk(turn, system_blocks(f"Staging.\nDeployed 09:0{minute}", "Production.\nDeployed 10:00")))
        done = lane.send(raw.encode())
        assert done.raw == raw.encode()
        assert done.reset == ("volatile_system_changed" if turn == 2 else None)
    lane.send(talk(4, system_blocks("Staging.\nDeployed 09:00", "Production.")))
    lane.send(talk(5, system_blocks("Staging.\nDeployed 09:01", "Production.")))
    raw = json.dumps(talk(6, system_blocks("Staging.\nDeployed 09:00", "Production.\nDeployed 10:00")))
    done = lane.send(raw.encode())
    assert (done.raw, done.reset) == (raw.encode(), "volatile_system_changed")


def test_with_values_a_memory_that_began_in_the_text_before_stays_where_the_client_says_it() -> None:
    lane = Lane(mode="values")
    for turn in range(3):
        texts = ("Be brief.\n# Memory", f"- Date: 2026-11-1{turn}")
        raw = json.dumps(talk(turn, system_blocks(*texts))).encode()
        assert lane.send(raw).raw == raw


def test_of_a_long_line_all_values_are_told_once_one_was() -> None:
    lane = Lane()

    def system(one: int, two: int) -> str:
        return f"It is 09:{one:02} here. {'Be brief and kind to all. ' * 20}It is 11:{two:02} there."

    lane.send(talk(0, system(0, 0)))
    assert said(lane.send(talk(1, system(0, 1))))[1:] == ["Current values: It is 11:01 there."]
    done = lane.send(talk(2, system(2, 0)))
    assert said(done)[1:] == ["Current values: It is 09:02 here … It is 11:00 there."]
    assert lane.breaks() == []


def test_a_value_in_the_schema_of_a_tool_is_told_too() -> None:
    lane = Lane()

    def tools(minute: int, hour: int) -> list[dict[str, Any]]:
        schema = {"type": "object", "description": f"The time is 09:{minute:02} now."}
        return [TOOLS[0] | {"description": f"It is {hour}:00 now.", "input_schema": schema}, *TOOLS[1:]]

    lane.send(talk(0, tools=tools(0, 9)))
    done = lane.send(talk(1, tools=tools(1, 9)))
    assert json.loads(done.raw)["tools"] == tools(0, 9)
    assert "09:01" in said(done)[1]
    assert "09:00" in said(lane.send(talk(2, tools=tools(0, 9))))[1]
    both = said(lane.send(talk(2, tools=tools(2, 10))))[2]
    assert "09:02" in both
    assert "It is 10:00 now." in both
    assert lane.breaks() == []


def test_the_line_by_which_a_client_is_billed_goes_through() -> None:
    lane = Lane()
    for turn in range(2):
        line = f"x-anthropic-billing-header: cc_version=2.1; turn {turn}; at 09:0{turn}"
        raw = json.dumps(talk(turn, [{"type": "text", "text": line}])).encode()
        assert lane.send(raw).raw == raw


@pytest.mark.parametrize("dialect", [name for name in MODELS if name != "anthropic"])
@pytest.mark.parametrize("loop", [False, True])
def test_a_clock_is_told_in_every_dialect(dialect: str, loop: bool) -> None:
    lane = Lane(dialect).after(*(RENDER[dialect](turn, clock(turn), loop) for turn in range(4)))
    assert lane.breaks() == []
    assert (
        b"Current values: Current time: 2026-11-02T09:03"
        in lane.parse(lane.send(RENDER[dialect](3, clock(3), loop)).raw).raw
    )


def chat(turns: int, system: str, loop: bool) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": "q"}]
    for turn in range(turns):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        loops = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "r"},
        ]
        talks = [{"role": "assistant", "content": "a"}, {"role": "user", "content": f"q {turn}"}]
        messages += loops if loop else talks
    return {"model": "gpt-6.1-sol", "messages": messages}


def responses(turns: int, system: str, loop: bool) -> dict[str, Any]:
    items: list[dict[str, Any]] = [{"role": "user", "content": "q"}]
    for turn in range(turns):
        loops = [
            {"type": "function_call", "call_id": f"c{turn}", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{turn}", "output": "r"},
        ]
        talks = [{"role": "assistant", "content": "a"}, {"role": "user", "content": f"q {turn}"}]
        items += loops if loop else talks
    return {"model": "gpt-6.1-sol", "instructions": system, "input": items}


def gemini(turns: int, system: str, loop: bool) -> dict[str, Any]:
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "q"}]}]
    for turn in range(turns):
        loops = [
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"n": turn}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": turn}}}]},
        ]
        talks = [{"role": "model", "parts": [{"text": "a"}]}, {"role": "user", "parts": [{"text": f"q {turn}"}]}]
        contents += loops if loop else talks
    return {"systemInstruction": {"parts": [{"text": system}]}, "contents": contents}


def test_where_the_provider_keeps_the_conversation_values_are_told_each_time_once_they_were() -> None:
    """Responses: what was told stands there and not in the request, so that what was told last is not known."""
    lane = Lane("openai_responses")

    def send(response: str, minute: int, *facts: str) -> list[str]:
        body = {
            "model": "gpt-6.1-sol",
            "instructions": clock(minute) + "\n\n# Memory\n" + "\n".join(f"- {fact}" for fact in facts),
            "previous_response_id": response,
            "input": [{"role": "user", "content": "go on"}],
        }
        sent = json.loads(lane.send(body).raw)
        assert sent["instructions"].startswith(clock(0))
        content = sent["input"][0]["content"]
        return [] if isinstance(content, str) else [part["text"] for part in content[1:]]

    assert send("a", 0, "likes tea") == send("b", 0, "likes tea") == []
    told = send("c", 1, "likes tea")
    assert [text[-18:-13] for text in told] == ["09:01"]
    assert send("c", 1, "likes tea") == told
    back, more = send("d", 0, "likes tea", "has a cat")
    assert (back[-18:-13], more) == ("09:00", "Added to “Memory”:\n- has a cat")
    same, less = send("e", 0, "likes tea")
    assert (same, less) == (back, "“Memory” is now:\n# Memory\n- likes tea")


RENDER = {"openai_chat": chat, "openai_responses": responses, "gemini": gemini}


# Memory and splits


def remembering(*facts: str) -> str:
    return "Be brief.\n\n# Memory\n" + "\n".join(f"- {fact}" for fact in facts)


def test_a_memory_that_grows_is_told_by_what_it_gained() -> None:
    lane = Lane().after(talk(0, remembering("likes tea")))
    grown = lane.send(talk(1, remembering("likes tea", "owns a cat")))
    assert said(grown) == ["question 1", "Added to “Memory”:\n- owns a cat"]
    again = lane.send(talk(2, remembering("owns a cat", "likes tea")))
    assert said(again) == ["question 2"]  # an entry that only moved is no news
    changed = lane.send(talk(3, remembering("likes coffee", "owns a cat")))
    assert said(changed) == ["question 3", "“Memory” is now:\n# Memory\n- likes coffee\n- owns a cat"]
    back = lane.send(talk(4, remembering("likes tea")))
    assert said(back) == ["question 4", "“Memory” is now:\n# Memory\n- likes tea"]
    assert lane.send(talk(5, remembering("likes tea"))).repairs[0].name == "memory-to-tail"
    lane.restart()
    more = lane.send(talk(6, remembering("likes tea", "owns a dog")))
    assert said(more) == ["question 6", "Added to “Memory”:\n- owns a dog"]
    assert lane.breaks() == []


def test_a_clock_and_a_memory_are_cured_together() -> None:
    lane = Lane()
    for turn in range(4):
        facts_ = [f"fact {n}" for n in range(turn // 2 + 1)]
        lane.send(talk(turn, f"It is 09:0{turn} now.\n" + remembering(*facts_)))
    assert lane.breaks() == []
    assert said(lane.send(talk(4, "It is 09:04 now.\n" + remembering("fact 0", "fact 1")))) == [
        "question 4",
        "Current values: It is 09:04 now.",
    ]


RULES = "# Rules\n" + "Do what is asked.\n" * 40


def blocks(mood: str) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": "You are an agent."},
        {"type": "text", "text": f"{RULES}\nToday's style is {mood}.", "cache_control": {"type": "ephemeral"}},
    ]


def test_a_text_that_changes_at_its_end_is_split_and_the_marker_stays_on_the_stable_part() -> None:
    lane = Lane().after(talk(0, blocks("calm")))
    done = [lane.send(talk(turn, blocks(mood))) for turn, mood in enumerate(("loud", "odd", "odd", "sad"), 1)]
    for item in done:
        system = json.loads(item.raw)["system"]
        assert [block["text"][:6] for block in system] == ["You ar", "# Rule", "Today'"]
        assert ["cache_control" in block for block in system] == [False, True, False]
        assert item.volatile_paths == ("system[2]",)
        assert [(r.name, r.path, r.applied) for r in item.repairs] == [("system-split", "system[1]", True)]
        assert item.repairs[0].saved_tokens > 100
    stable = 3 + 1  # three tools, the first text and the stable part
    assert {prompt.keys[stable] for prompt in lane.prompts[1:]} == {lane.prompts[1].keys[stable]}
    assert lane.breaks() == [1, 2, 4]


def test_the_first_text_is_never_split_and_a_split_is_only_suggested_by_default() -> None:
    lane = Lane()
    for turn, mood in enumerate(("calm", "loud")):
        raw = json.dumps(talk(turn, f"{RULES}\nToday's style is {mood}.")).encode()
        assert lane.send(raw).raw == raw
    suggesting = Lane(mode="suggest").after(talk(0, blocks("calm")))
    raw = json.dumps(talk(1, blocks("loud"))).encode()
    told = suggesting.send(raw)
    assert (told.raw, [(r.name, r.applied) for r in told.repairs]) == (raw, [("system-split", False)])


def test_what_a_ledger_of_an_older_version_says_of_tools_is_forgotten() -> None:
    lane = Lane().after(talk(0, clock(0)), talk(1, clock(1)))
    (insert,) = lane.state.inserts[key(lane, 0)]
    insert.told[b"t" + bytes(8)] = bytes(8)
    done = lane.send(talk(2, clock(2)))
    assert (json.loads(done.raw), done.reset) == (talk(2, clock(2)), "repair_forgotten")


# Switching off


@pytest.mark.parametrize("name", ["volatile-value", "memory-to-tail"])
def test_a_bypassed_repair_is_undone_for_one_request_with_a_reason(name: str) -> None:
    """Both move what is said to the newest turn: who skips one skips the other."""
    lane = Lane().after(talk(0, clock(0)), talk(1, clock(1)))
    raw = json.dumps(talk(2, clock(2))).encode()
    bare = lane.send(raw, skip=frozenset({name}))
    assert (bare.raw, bare.reset) == (raw, "bypassed")
    back = lane.send(talk(3, clock(3)))
    assert back.reset == "bypassed"
    assert extends(lane.prompts[1], lane.prompts[3])
    assert lane.send(talk(4, clock(4))).reset is None


@pytest.mark.parametrize("name", ["tool-order", "key-order"])
def test_an_order_repair_can_be_bypassed(name: str) -> None:
    lane = Lane(mode="suggest").after(talk(1))
    request = turned(talk(2)) | {"tools": list(reversed(TOOLS))}
    done = lane.send(request, skip=frozenset({name}))
    assert done.reset == "bypassed"
    sent = json.loads(done.raw)
    assert (sent["tools"] == request["tools"]) == (name == "tool-order")
    assert (list(sent["messages"][1]["content"][0]["input"]) == ["b", "a"]) == (name == "key-order")
    lane.send(talk(3))
    assert extends(lane.prompts[0], lane.prompts[2])


def test_skipping_what_does_nothing_is_no_reset() -> None:
    lane = Lane().after(talk(0))
    done = lane.send(talk(1), skip=frozenset({"volatile-value", "tool-order"}))
    assert (done.repairs, done.reset) == ((), None)


@pytest.mark.parametrize("mode", ["off", "suggest"])
def test_repairs_switched_off_in_the_middle_end_with_a_reason(mode: Mode) -> None:
    lane = Lane().after(talk(0, clock(0)), talk(1, clock(1)))
    lane.mode = mode
    raw = json.dumps(talk(2, clock(2))).encode()
    done = lane.send(raw)
    assert (done.raw, done.reset) == (raw, "bypassed")
    assert lane.send(talk(3, clock(3))).reset is None


def test_a_long_lane_fits_into_its_ledger() -> None:
    lane = Lane()
    trace = FAULTS["clock-at-head"](timed(), 0)
    for raw in bodies(trace):
        lane.send(raw)
    turns = len(trace.steps)
    size = len(msgspec.msgpack.encode(lane.state))
    assert size / turns * 1000 < 256_000
    text = b"".join(lane.disk.values())
    assert b"Current time" in text
    assert b"Current time" not in msgspec.msgpack.encode(lane.state)


def test_a_text_too_long_to_be_looked_at_goes_out_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_texts, "LONGEST", 500)
    lane = Lane().after(talk(0, clock(0) + "x" * 500))
    done = lane.send(talk(1, clock(1) + "x" * 500))
    assert (json.loads(done.raw)["system"], done.repairs, done.reset) == (clock(1) + "x" * 500, (), None)
    lane.send(talk(2, clock(2)))
    again = lane.send(talk(3, clock(3)))
    assert json.loads(again.raw)["system"] == clock(2), "a text that is short again is repaired again"


def test_of_very_many_tools_with_a_clock_only_so_many_keep_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MOST_VALUES", 2)

    def tools(minute: int) -> list[dict[str, Any]]:
        return [{"name": f"t{n}", "description": clock(minute), "input_schema": {"type": "object"}} for n in range(4)]

    lane = Lane()
    for turn in range(3):
        sent = json.loads(lane.send(talk(turn, tools=tools(turn))).raw)["tools"]
        assert [tool["description"] for tool in sent] == [clock(0)] * 2 + [clock(turn)] * 2
    assert len(lane.state.kept_tools) == 2
