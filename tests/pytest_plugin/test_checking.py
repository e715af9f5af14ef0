"""What is found: every departure, none invented, in every dialect, alone and among other conversations."""

from __future__ import annotations

import json
from random import Random

import pytest

from holdfast.lab import FAULTS
from holdfast.pytest_plugin import PrefixUnstable, assert_prefix_stable
from holdfast.pytest_plugin.bodies import recorded as requests_of
from holdfast.pytest_plugin.check import check
from tests import shapes

from .sessions import MANUAL, MODELS, SESSIONS, bodies, departures, recorded, turn

CURES = {
    "clock-at-head": ("system_prompt_changed", {"clock"}),
    "clock-in-middle": ("system_prompt_changed", {"clock"}),
    "tools-shuffled": ("tools_changed", {"tool_order"}),
    "memory-in-system": ("system_prompt_changed", {"memory_in_prefix"}),
    "sliding-window": ("messages_rewritten", {"sliding_window"}),
    "keys-reordered": ("messages_rewritten", {"key_order"}),
    "results-pruned": ("messages_rewritten", {"old_result_replaced", "messages_rewritten"}),
}


@pytest.mark.parametrize("dialect", MODELS)
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_that_only_grows_is_stable(dialect: str, name: str) -> None:
    raws = bodies(dialect, name=name)
    checked = assert_prefix_stable(recorded(raws, dialect))
    assert (checked.requests, checked.compared, checked.conversations) == (len(raws), len(raws) - 1, 1)
    assert not checked.unmarked


@pytest.mark.unmeasured
@pytest.mark.parametrize("dialect", MODELS)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_departure_is_found_and_none_invented(dialect: str, fault: str) -> None:
    raws = bodies(dialect, fault)
    expected = departures(raws, dialect)
    found = check(recorded(raws, dialect)).unstable
    assert {one.request for one in found} == expected
    assert expected
    cause, cures = CURES[fault]
    assert {one.cause for one in found} == {cause}
    assert {one.cure.name for one in found} <= cures


@pytest.mark.unmeasured
@pytest.mark.parametrize("dialect", MODELS)
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_conversations_that_are_mixed_are_told_apart(dialect: str, fault: str | None) -> None:
    """All sessions at once, in any order: the same is found as in each of them alone. What opens a conversation may be
    found too, where tools and system text are another session's but for what changes by itself."""
    alone = {name: bodies(dialect, fault, name) for name in SESSIONS}
    expected = {(name, number) for name, raws in alone.items() for number in departures(raws, dialect)}
    waiting = {name: list(enumerate(raws, 1)) for name, raws in alone.items()}
    rng, order, mixed = Random(f"{dialect} {fault}"), [], []
    while waiting:
        name = rng.choice(sorted(waiting))
        number, raw = waiting[name].pop(0)
        order.append((name, number))
        mixed.append(raw)
        waiting = {name: left for name, left in waiting.items() if left}
    found = {order[one.request - 1] for one in check(recorded(mixed, dialect)).unstable}
    assert {each for each in found if each[1] > 1} == expected
    if fault is None:
        assert not found


def recordings() -> list[tuple[str, str]]:
    return [key for key, run in shapes.conversations().items() if len([s for s in run if s.dialect]) > 1]


@pytest.mark.unmeasured
@pytest.mark.parametrize(("client", "run"), recordings())
@pytest.mark.parametrize("headers", [True, False], ids=["with-headers", "bodies-only"])
def test_what_real_clients_send_is_stable_where_it_is(client: str, run: str, headers: bool) -> None:
    """Titles, sub-agents and resends are no instability, with the clients' headers and without. aider moves a reminder
    on to its newest message with every request; codex warms its connection up with another prompt."""
    found = shapes.conversations()[client, run]
    asked = [Asked(shape, headers) for shape in found if shape.dialect and shape.body]
    checked = check(requests_of(asked))
    if client.startswith("aider"):
        assert [one.request for one in checked.unstable] == list(range(2, len(asked) + 1))
        assert {one.cause for one in checked.unstable} == {"messages_rewritten"}
    elif run == "ws-accepted":
        assert checked.parts == 2
    else:
        assert not checked.unstable
        assert checked.compared >= 1 or client == "codex-0.166"


class Asked:
    """A recorded request as an HTTP library has it."""

    def __init__(self, shape: shapes.Shape, headers: bool) -> None:
        self.url = f"https://api.example.com{shape.path}"
        self.content = shape.body
        self.headers = dict(shape.headers) if headers else {}


def test_what_makes_no_difference_is_none() -> None:
    """Markers move on, a string is one text block, spacing and escapes do not count, attribution lines come and go."""
    line = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1;"}
    first = turn("Is anybody there?", system=[line, {"type": "text", "text": MANUAL}])
    second = turn("Is anybody there?", "Yes.", "Who?")
    second["messages"][0]["content"] = "Is anybody there?"
    second["system"] = [
        line | {"text": "x-anthropic-billing-header: cc_version=2.1; cch=2;"},
        {"type": "text", "text": MANUAL, "cache_control": {"type": "ephemeral"}},
    ]
    spaced = json.dumps(second, indent=2, ensure_ascii=True).replace("Is anybody", "\\u0049s anybody")
    assert assert_prefix_stable([first, spaced]).compared == 1


@pytest.mark.parametrize(
    ("later", "cause", "what", "path"),
    [
        ({"system": MANUAL + "Be brief."}, "system_prompt_changed", "changed", "system[0]"),
        ({"system": []}, "system_prompt_changed", "removed", "system[0] (gone)"),
        ({"model": "claude-sonnet-4-5"}, "model_changed", "model", "model"),
        ({"tool_choice": {"type": "any"}}, "parameters_changed", "settings", "tool_choice"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "parameters_changed", "settings", "thinking"),
        ({"tools": [{"name": "bash", "input_schema": {}}]}, "tools_changed", "inserted", "tools[0]"),
    ],
)
def test_departures_of_one_request(later: dict[str, object], cause: str, what: str, path: str) -> None:
    checked = check(requests_of([turn("one"), turn("one", "two", "three", **later)]))
    (found,) = checked.unstable
    assert (found.request, found.earlier, found.cause, found.what, found.path) == (2, 1, cause, what, path)


def test_a_departure_that_comes_back_is_one_departure() -> None:
    """Two versions are two cached prefixes: back at the first nothing is lost, unless the conversation went on under
    the other meanwhile."""
    said = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    others = {"system": MANUAL + "Plan first."}
    items = [turn(*said[: 2 * i + 1], **(others if i % 2 else {})) for i in range(5)]
    checked = check(requests_of(items))
    assert [one.request for one in checked.unstable] == [2, 3, 4, 5]
    items = [turn(*said[:3]), turn(*said[:3], **others), turn(*said[:5]), turn(*said[:5], **others)]
    assert [one.request for one in check(requests_of(items)).unstable] == [2, 4]
    items = [turn(*said[:3]), turn(*said[:3], **others), turn(*said[:5]), turn(*said[:3], **others)]
    assert [one.request for one in check(requests_of(items)).unstable] == [2]


def test_announced_resets_are_allowed_where_their_reason_speaks_of_the_place() -> None:
    said = [f"{word} " * 50 for word in "abcdefghi"]
    long, short = turn(*said), turn("What was said: a to i.", "Yes.", said[-1])
    alone = {"lane": "one"}
    assert [one.request for one in check(requests_of([long, short]), **alone).unstable] == [2]
    allowed = check(requests_of([long, short]), resets={2: "compaction"}, **alone)
    assert not allowed.unstable
    assert [(one.request, one.reset) for one in allowed.resets] == [(2, "compaction")]
    assert not check(requests_of([long, short]), allow="compaction", **alone).unstable
    assert check(requests_of([long, short]), allow=("history_trimmed",), **alone).unstable
    changed = turn(*said, "j", "k", system=MANUAL + "Be brief.")
    assert check(requests_of([long, changed]), resets={2: "compaction"}).unstable  # that speaks of messages
    assert not check(requests_of([long, changed]), resets={2: "volatile_system_changed"}).unstable
    assert not check(requests_of([long, changed]), allow=["system_prompt_changed"]).unstable


def test_a_check_that_proves_nothing_fails() -> None:
    with pytest.raises(PrefixUnstable, match="nothing was proved: 0 requests of 0") as nothing:
        assert_prefix_stable([])
    assert "A client that was made before the fixture has its own address" in str(nothing.value).replace("\n", " ")
    with pytest.raises(PrefixUnstable, match="0 requests of 1 could be held"):
        assert_prefix_stable([turn("one")])
    with pytest.raises(PrefixUnstable, match=r"1 request of 2 could be held against an earlier one,\nand at least 2"):
        assert_prefix_stable([turn("one"), turn("one", "two", "three")], at_least=2)
    assert assert_prefix_stable([turn("one")], at_least=0).compared == 0


def test_markers_are_demanded_only_on_request() -> None:
    items = [turn("one", markers=False), turn("one", "two", "three", markers=False)]
    assert assert_prefix_stable(items).unmarked == ("conversation 1",)
    with pytest.raises(PrefixUnstable, match="conversation 1 carries no cache marker"):
        assert_prefix_stable(items, require_markers=True)
    assert_prefix_stable([turn("one"), turn("one", "two", "three")], require_markers=True)
    small = [turn("one", markers=False, system="Hi."), turn("one", "two", "three", markers=False, system="Hi.")]
    assert_prefix_stable(small, require_markers=True)  # too small to be cached at all
    automatic = [turn("one", markers=False, cache_control={"type": "ephemeral"}) for _ in range(2)]
    assert_prefix_stable(automatic, require_markers=True)
    chat = [{"model": "gpt-5.6", "messages": [{"role": "user", "content": MANUAL}]}] * 2
    assert_prefix_stable([dict(body, messages=list(body["messages"])) for body in chat], require_markers=True)
