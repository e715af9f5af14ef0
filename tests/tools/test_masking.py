"""Old tool results become placeholders: which, in which order, in every dialect, and what is never touched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import facts
from holdfast.config.sections.agent import MaskSettings
from holdfast.engine.edits import unfit
from holdfast.records import Image, Opaque, Text, ToolResult, validate
from holdfast.tools import masking
from holdfast.tools.guides import wrapped
from holdfast.tools.masking import PLACEHOLDER, MaskedResult, Masker, masks, placeholder, strips
from holdfast.tools.observations import observe, replaced, sites
from holdfast.tools.offload import PREFIX
from holdfast.wire import DIALECTS, Body
from tests import shapes
from tests.properties.bodies import BODIES
from tests.tools.results import MODELS, Did, body_of, did, edited, fetched, parsed, prompt_of, raw_of, texts

each_dialect = pytest.mark.parametrize("dialect", MODELS)
LOW = MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=10_000)
ALL = MaskSettings(keep_window=0, trigger_chars=0, release_chars=0)


def wanted(turns: Any, settings: MaskSettings = LOW, dialect: str = "anthropic", **more: Any) -> masking.Wanted:
    body = body_of(turns, dialect)
    return masks(body, prompt_of(body), settings, **more)


def after(turns: Any, settings: MaskSettings = LOW, dialect: str = "anthropic", **more: Any) -> list[str]:
    """What the results say once what is wanted is done."""
    body = body_of(turns, dialect)
    return texts(edited(body, masks(body, prompt_of(body), settings, **more).edits))


def cleared(turns: Any, settings: MaskSettings = LOW, dialect: str = "anthropic", **more: Any) -> list[int]:
    """Which of the results are masked."""
    said = after(turns, settings, dialect, **more)
    return [number for number, text in enumerate(said) if text.startswith(PLACEHOLDER)]


# When and which


def test_below_the_trigger_nothing_is_wanted_and_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "observe", None)  # would raise if it were called
    assert not wanted(fetched(23), MaskSettings())
    with pytest.raises(TypeError):
        wanted(fetched(30), MaskSettings())


@each_dialect
def test_from_the_trigger_on_the_oldest_go_until_the_release(dialect: str) -> None:
    assert not wanted(fetched(3) + fetched(1, 4_999, first=9), dialect=dialect)
    assert cleared(fetched(4), dialect=dialect) == [0, 1]
    assert cleared(fetched(6), dialect=dialect) == [0, 1, 2, 3]
    assert cleared(fetched(6), MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=20_000), dialect) == [
        0,
        1,
    ]


def test_the_settings_of_the_document_are_the_defaults() -> None:
    assert cleared(fetched(30), MaskSettings()) == [
        0,
        1,
        2,
        3,
        4,
    ]  # the newest 25 stay, although 125,000 characters are left
    assert cleared(fetched(60), MaskSettings()) == list(range(35))
    assert cleared(fetched(60, 2_000), MaskSettings()) == list(range(20))  # 80,000 are left
    assert cleared(fetched(60), MaskSettings(enabled=False)) == []


@each_dialect
def test_the_newest_stay_whatever_they_hold(dialect: str) -> None:
    assert cleared(fetched(3, 50_000), MaskSettings(keep_window=3, trigger_chars=1, release_chars=0), dialect) == []
    assert cleared(fetched(4, 50_000), MaskSettings(keep_window=3, trigger_chars=1, release_chars=0), dialect) == [0]


@each_dialect
def test_what_the_model_has_yet_to_read_stays(dialect: str) -> None:
    assert cleared(fetched(3), ALL, dialect) == [0, 1]
    assert cleared([*fetched(3), fetched(3, first=3)], ALL, dialect) == [0, 1, 2]


def test_results_side_by_side_count_one_by_one() -> None:
    turns = [fetched(3), fetched(3, first=3), did(page=9)]
    assert cleared(turns, MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=0)) == [0, 1, 2, 3, 4]


def test_what_is_little_longer_than_its_placeholder_stays() -> None:
    small = len(placeholder("fetch", 1)) + 199
    assert cleared(fetched(3, small), ALL) == []
    assert cleared(fetched(3, small + 20), ALL) == [0, 1]


def test_pictures_count_and_go() -> None:
    picture = Did("fetch", {"page": 1}, (Text("a picture"), Image("image/png", data="QUJD" * 5_000)))
    assert cleared([picture, *fetched(1)]) == []
    assert wanted([picture, *fetched(2)]).masked[0].characters > 20_000
    body = body_of([picture, *fetched(2)])
    assert b"QUJD" not in edited(body, masks(body, prompt_of(body), LOW).edits).raw


# What stands in their place


@each_dialect
def test_the_replacement_is_a_legal_block_that_keeps_id_and_error(dialect: str) -> None:
    body = body_of([did(page=1, is_error=True), *fetched(5, first=2)], dialect)
    found = masks(body, prompt_of(body), LOW)
    places = {b.digest: i for i, b in enumerate(prompt_of(body).blocks)}
    assert unfit(DIALECTS[dialect], body, {places[digest]: new for digest, new in found.edits.items()}) is None
    before, now = DIALECTS[dialect].decode(body), DIALECTS[dialect].decode(edited(body, found.edits))
    assert validate(now) == ()
    assert len(found.edits) == 4

    def results(request: Any) -> list[tuple[str, bool]]:
        blocks = [block for message in request.messages for block in message.content if isinstance(block, ToolResult)]
        return [(block.tool_use_id, block.is_error) for block in blocks]

    assert results(now) == results(before)
    assert len(results(now)) == 6


@each_dialect
def test_it_says_what_is_gone_and_nothing_that_moves(dialect: str) -> None:
    short, long = wanted(fetched(4), dialect=dialect), wanted(fetched(9), dialect=dialect)
    assert short.edits.items() <= long.edits.items()
    said = after(fetched(4), dialect=dialect)[0]
    assert said == (
        "[Tool result cleared: fetch, 5000 characters. "
        "The call was answered; make it again only if you need the output.]"
    )
    if dialect != "gemini":
        assert short.masked == tuple(
            MaskedResult(tool="fetch", tool_use_id=f"call_{n}", characters=5_000) for n in (1, 2)
        )


@each_dialect
def test_what_is_recorded_is_not_asked_for_again(dialect: str) -> None:
    first = wanted(fetched(4), dialect=dialect)
    assert not wanted(fetched(4), dialect=dialect, already=first.edits)
    assert not wanted(fetched(5), dialect=dialect, already=first.edits)  # 15,000 characters stand there in full
    more = wanted(fetched(6), dialect=dialect, already=first.edits)
    assert len(more.edits) == 2
    assert not more.edits.keys() & first.edits.keys()


@each_dialect
def test_a_placeholder_in_the_history_itself_is_left_alone(dialect: str) -> None:
    said = Did("fetch", {"page": 0}, placeholder("fetch", 9_999) + "x" * 900)
    assert cleared([said, *fetched(4)], dialect=dialect) == [0, 1, 2]
    assert len(wanted([said, *fetched(4)], dialect=dialect).edits) == 2


# What is never touched


@each_dialect
def test_c43_references_to_offloaded_results_are_left_alone(dialect: str) -> None:
    reference = Did("fetch", {"page": 0}, PREFIX + "fetch, 90000 characters, /tmp/x.txt]\n" + "head " * 2_000)
    assert cleared([reference, *fetched(5, first=1)], dialect=dialect) == [1, 2, 3]


@each_dialect
def test_a_result_with_a_guide_is_left_alone(dialect: str) -> None:
    guided = Did("fetch", {"page": 0}, (Text("said " * 2_000), Text(wrapped("Mind the gap."))))
    assert cleared([guided, *fetched(5, first=1)], dialect=dialect) == [1, 2, 3]


@each_dialect
@pytest.mark.parametrize("name", ["skill_load", "discover_tools", "recall"])
def test_results_of_protected_tools_are_left_alone(dialect: str, name: str) -> None:
    chosen = MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=0, protected=("recall",))
    assert cleared([did(name, x=1), *fetched(5)], chosen, dialect) == [1, 2, 3]
    called = Did("call_tool", {"name": name, "arguments": {"x": 1}}, "said " * 1_000)
    assert cleared([called, *fetched(5)], chosen, dialect) == [1, 2, 3]


def test_a_tool_called_through_another_is_named_itself() -> None:
    called = Did("call_tool", {"name": "weather", "arguments": {"x": 1}}, "said " * 1_000)
    assert wanted([called, *fetched(3)]).masked[0].tool == "weather"
    chosen = MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=0, protected=("call_tool",))
    assert cleared([called, *fetched(5)], chosen) == [1, 2, 3]


def test_results_that_hold_more_than_text_and_pictures_are_left_alone() -> None:
    reference = Opaque("tool_reference", b'{"type":"tool_reference","tool_name":"weather"}')
    found = Did("search", {"q": "weather"}, (Text("said " * 1_000), reference))
    assert cleared([found, *fetched(5)], MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=0)) == [
        1,
        2,
        3,
    ]


@pytest.mark.parametrize("name", ["signature", "encrypted_content"])
def test_what_the_provider_signed_is_left_alone(name: str) -> None:
    raw = json.loads(raw_of(fetched(6)))
    raw["messages"][2]["content"][0][name] = "sgn"
    body = parsed(json.dumps(raw).encode())
    found = masks(body, prompt_of(body), MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=0))
    assert [each.tool_use_id for each in found.masked] == ["call_2", "call_3", "call_4"]


def test_a_result_whose_call_is_not_there_is_left_alone() -> None:
    raw = json.loads(raw_of(fetched(6), "openai_responses"))
    del raw["input"][1]
    body = parsed(json.dumps(raw).encode(), "openai_responses")
    found = masks(body, prompt_of(body), MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=0))
    assert [each.tool_use_id for each in found.masked] == ["call_2", "call_3", "call_4"]


def test_a_result_that_stands_once_more_among_the_newest_stays_where_it_is_old_too() -> None:
    """Without ids two equal results are one block, and an edit counts for both."""
    body = parsed(_without_ids([did(page=1), *fetched(3, first=2), did(page=1)]), "gemini")
    found = masks(body, prompt_of(body), MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=0))
    assert [text[:12] for text in texts(edited(body, found.edits))] == [
        'fetch {"page',
        "[Tool result",
        "[Tool result",
        'fetch {"page',
        'fetch {"page',
    ]
    twice = parsed(_without_ids([did(page=1), did(page=1), *fetched(3, first=2)]), "gemini")
    found = masks(twice, prompt_of(twice), LOW)
    assert len(found.edits) == 2
    assert len(found.masked) == 3


def _without_ids(turns: list[Did]) -> bytes:
    """As gemini's older clients spell it: calls and answers are paired by name and order."""
    raw = json.loads(raw_of(turns, "gemini"))
    for content in raw["contents"]:
        for part in content["parts"]:
            part.get("functionCall", part.get("functionResponse", {})).pop("id", None)
    return json.dumps(raw).encode()


def test_gemini_results_without_ids_are_found_by_name_and_order() -> None:
    body = parsed(_without_ids([did("read_file", path="a"), did(page=1), *fetched(3, first=2)]), "gemini")
    found = observe(body, prompt_of(body), sites(body, prompt_of(body)))
    assert [each.tool for each in found] == ["read_file", "fetch", "fetch", "fetch", "fetch"]
    assert [each.call.id for each in found] == [f"gemini-call-{number}" for number in range(1, 6)]
    assert json.loads(found[0].call.input) == {"path": "a"}


def test_a_gemini_picture_goes_with_its_result() -> None:
    picture = Did("fetch", {"page": 1}, (Text("a picture " * 100), Image("image/png", data="QUJD" * 5_000)))
    body = body_of([picture, *fetched(3)], "gemini")
    now = edited(body, masks(body, prompt_of(body), LOW).edits)
    assert b"QUJD" not in now.raw
    assert len(now.blocks) == len(body.blocks)


def test_parts_of_one_chat_message_go_together() -> None:
    raw = json.loads(raw_of(fetched(6), "openai_chat"))
    said = next(message for message in raw["messages"] if message["role"] == "tool")
    said["content"] = [{"type": "text", "text": "one " * 900}, {"type": "text", "text": "two " * 900}]
    body = parsed(json.dumps(raw).encode(), "openai_chat")
    found = masks(body, prompt_of(body), LOW)
    assert len(found.edits) == len(found.masked) + 1
    now = texts(edited(body, found.edits))[0]
    assert now.startswith(PLACEHOLDER)
    assert now.endswith("]" + "[cleared]")


# Dead results go first


@each_dialect
def test_a_read_that_was_repeated_goes_before_older_results(dialect: str) -> None:
    turns = [
        *fetched(3),
        did("read_file", path="src/a.py"),
        did("read_file", path="src/b.py"),
        did("read_file", path="./src/a.py", offset=1),
        *fetched(2, first=5),
    ]
    chosen = MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=35_000)
    said = after(turns, chosen, dialect)
    assert [number for number, text in enumerate(said) if text.startswith(PLACEHOLDER)] == [3]
    assert said[3].endswith("The file was read again or changed later in this conversation.]")


@each_dialect
@pytest.mark.parametrize("name", ["write_file", "patch_file"])
def test_a_read_before_a_change_of_the_file_goes_first(dialect: str, name: str) -> None:
    turns = [*fetched(3), did("read_file", path="a.py", offset=5), did(name, 10, path="a.py"), *fetched(2, first=5)]
    assert cleared(turns, MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=26_000), dialect) == [3]


@pytest.mark.parametrize(
    "later",
    [
        did("read_file", path="b.py"),
        did("read_file", path="a.py", offset=100),
        did("read_file", path="a.py", is_error=True),
        did("write_file", path="a.py", is_error=True),
        did("write_file", path="b.py"),
        did("fetch", path="a.py"),
    ],
)
def test_nothing_else_makes_a_read_dead(later: Did) -> None:
    turns = [*fetched(1), did("read_file", path="a.py"), later, *fetched(2, first=5)]
    assert cleared(turns, MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=20_000)) == [0]


def test_a_dialect_that_does_not_say_what_failed_is_told() -> None:
    turns = [*fetched(1), did("read_file", path="a.py"), did("read_file", path="a.py"), *fetched(2, first=5)]
    chosen = MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=20_000)
    assert cleared(turns, chosen, "openai_chat") == [1]
    assert cleared(turns, chosen, "openai_chat", failed={"call_3"}) == [0]


def test_what_runs_side_by_side_supersedes_nothing() -> None:
    turns = [did(page=1), [did("read_file", path="a.py"), did("write_file", path="a.py")], *fetched(2, first=5)]
    assert cleared(turns, MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=20_000)) == [0]


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_an_error_that_was_overcome_goes_after_dead_reads_and_before_the_rest(dialect: str) -> None:
    turns = [
        *fetched(2),
        did("run_command", command="make", is_error=True),
        did("run_command", command="ls", is_error=True),
        did("read_file", path="a.py"),
        did("read_file", path="a.py"),
        did("run_command", 100, command="make"),
        *fetched(2, first=5),
    ]

    def at(release: int) -> list[int]:
        return cleared(turns, MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=release), dialect)

    assert [at(release) for release in (36_000, 31_000, 26_000)] == [[4], [2, 4], [0, 2, 4]]
    said = after(turns, MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=31_000), dialect)[2]
    assert said.endswith("The call failed; a later one succeeded.]")


# Recorded clients


@pytest.mark.unmeasured
@pytest.mark.parametrize("shape", [s for s in shapes.load() if s.dialect and s.body], ids=lambda s: s.id)
def test_the_results_of_real_clients_are_found_and_can_be_masked(shape: shapes.Shape) -> None:
    assert shape.dialect is not None
    assert shape.body is not None
    body = parsed(shape.body, shape.dialect)
    prompt = prompt_of(body)
    found = observe(body, prompt, sites(body, prompt))
    known = [b for m in DIALECTS[shape.dialect].decode(body).messages for b in m.content if isinstance(b, ToolResult)]
    assert [each.call.id for each in found] == [block.tool_use_id for block in known]
    assert all(each.plain and each.characters for each in found)
    assert all(each.tool for each in found if each.call.at >= 0)
    new = {each.digests[0]: replaced(body, each.site, "[gone]")[0] for each in found}
    assert texts(edited(body, new)) == ["[gone]"] * len(found)


@pytest.mark.parametrize("dialect", BODIES)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.data())
def test_odd_bodies_raise_nothing_and_stay_legal(dialect: str, data: st.DataObject) -> None:
    body = DIALECTS[dialect].parse(data.draw(BODIES[dialect]), model="gemini-3-pro" if dialect == "gemini" else "")
    if not isinstance(body, Body):
        return
    prompt = prompt_of(body)
    found = masks(body, prompt, ALL) | strips(body, prompt, ("a", "b"))
    places = dict(zip((b.digest for b in prompt.blocks), prompt.origin or range(len(prompt.blocks)), strict=True))
    assert unfit(DIALECTS[dialect], body, {places[digest]: new for digest, new in found.edits.items()}) is None


# When to ask


class Asking:
    """A masker and a lane whose fence is what the test says."""

    def __init__(self, settings: MaskSettings = LOW) -> None:
        self.masker, self.fence = Masker(settings), WARM
        self.already: dict[bytes, bytes] = {}
        self.fences = 0

    def ask(self, count: int, made: bool = False) -> int:
        body = body_of(fetched(count))
        wanted = self.masker.requests(body, prompt_of(body), fence=self._fence, already=self.already)
        if made:
            self.already |= wanted.edits
        assert self.masker.settle(made) == (wanted.masked if made else ())
        return len(wanted.edits)

    def until_asked(self, first: int, made: bool = False) -> int:
        """How many results there are when the masker asks, one more with each request."""
        return next(count for count in range(first, 200) if self.ask(count, made))

    def _fence(self) -> int:
        self.fences += 1
        return self.fence


WARM = 10_000


def test_a_cold_lane_is_asked_at_once() -> None:
    lane = Asking()
    assert lane.ask(20) == 0
    lane.fence = 5  # tools, system text and the question are warm, no result is
    assert lane.ask(20, made=True) == 18
    assert lane.ask(20, made=True) == 0
    assert lane.ask(22, made=True) == 2  # what is masked counts no more


def test_a_warm_lane_is_asked_when_reading_on_has_cost_as_much_as_the_rewrite() -> None:
    """By what the masked request really weighs: the masker itself has only read how long everything is."""
    lane, model = Asking(), facts.model(MODELS["anthropic"])
    count = lane.until_asked(4)
    wasted, behind = [], 0
    for number in range(4, count + 1):
        body = body_of(fetched(number))
        before, after = prompt_of(body), prompt_of(edited(body, masks(body, prompt_of(body), LOW).edits))
        wasted.append((before.tokens - after.tokens) * model.read)
        behind = after.tokens - after.ends[body.messages_from - 1]  # no entry ends inside the messages
    cost = float(behind * (model.write() - model.read))
    assert float(sum(wasted[:-1])) < 1.05 * cost
    assert float(sum(wasted)) > 0.95 * cost
    assert len(wasted) > 4


def test_after_a_refusal_it_waits_anew() -> None:
    lane = Asking()
    first = lane.until_asked(4)
    second = lane.until_asked(first + 1)
    assert second - first > 1
    lane.already |= masks(body := body_of(fetched(second)), prompt_of(body), LOW).edits
    assert lane.until_asked(second + 1, made=True) - second > second - first  # there is less to gain


def test_what_is_refused_although_it_is_cold_waits_for_the_next_time() -> None:
    lane = Asking()
    lane.fence = 0
    assert [lane.ask(20), lane.ask(20), lane.ask(25)] == [18, 0, 0]
    lane.fence = WARM
    assert lane.ask(25) == 0
    lane.fence = 0
    assert [lane.ask(25), lane.ask(25)] == [23, 0]


def test_where_there_is_nothing_to_mask_the_fence_is_not_asked_for() -> None:
    lane = Asking()
    assert lane.ask(3) == 0
    lane.masker.settings = MaskSettings(enabled=False)
    assert lane.ask(50) == 0
    lane.masker.settings = MaskSettings(keep_window=60, trigger_chars=0)
    assert lane.ask(50) == 0
    assert lane.fences == 0


@pytest.mark.slow
def test_results_that_may_not_go_do_not_stand_in_the_way_of_those_that_may() -> None:
    masker = Masker(LOW)
    asked = []
    for count in range(1, 80):
        body = body_of([*(did("skill_load", name=str(n)) for n in range(6)), *fetched(count)])
        wanted = masker.requests(body, prompt_of(body), fence=lambda: WARM)
        asked += [(count, len(wanted.edits))] if wanted else []
        masker.settle(False)
    assert asked[0][0] > 10
    assert len(asked) > 1


def test_text_with_fewer_characters_than_bytes_is_not_read_with_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    body = body_of([Did("fetch", {"page": number}, "語" * 4_000) for number in range(4)])
    masker, prompt = Masker(LOW), prompt_of(body)
    assert not masker.requests(body, prompt, fence=lambda: 0)
    monkeypatch.setattr(masking, "observe", None)  # would raise if it were called
    assert not masker.requests(body, prompt, fence=lambda: 0)
