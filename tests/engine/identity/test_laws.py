"""Laws of identity, for any requests: tenants never meet, conversations that begin differently never mix."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.identity.desk import Desk, words

NAMES = st.text(max_size=40)
HEADERS = st.dictionaries(
    st.sampled_from(
        (
            "x-holdfast-session",
            "x-holdfast-agent",
            "x-claude-code-session-id",
            "x-claude-code-agent-id",
            "session-id",
            "thread-id",
            "x-codex-parent-thread-id",
            "x-session-id",
            "x-session-affinity",
            "x-parent-session-id",
            "session_id",
            "x-client-request-id",
            "user-agent",
            "x-title",
            "x-stainless-retry-count",
        )
    ),
    NAMES,
    max_size=6,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({"user_id": NAMES}),
        "prompt_cache_key": NAMES,
        "session_id": NAMES,
        "max_tokens": st.integers(1, 40),
    },
)
TALKS = st.lists(st.sampled_from("abc"), min_size=1, max_size=5)
REQUESTS = st.lists(st.tuples(HEADERS, FIELDS, TALKS), min_size=1, max_size=8)


def _words(texts: list[str], fields: dict[str, Any]) -> dict[str, Any]:
    clean = {key: value for key, value in fields.items() if _encodes(value)}
    return {**words(*texts), **clean}


def _encodes(value: object) -> bool:
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(REQUESTS, st.tuples(st.text(min_size=1), st.text(min_size=1)))
@settings(max_examples=80)
def test_two_tenants_never_get_the_same_lane(
    requests: list[tuple[dict[str, str], dict[str, Any], list[str]]], secrets: tuple[str, str]
) -> None:
    desk = Desk()
    seen: dict[str, set[tuple[str, str]]] = {}
    for headers, fields, texts in requests:
        for secret in {f"key-{each.strip()}" for each in secrets}:
            body = desk.body("anthropic", _words(texts, fields))
            found = desk.send({**headers, "x-api-key": secret}, body)
            seen.setdefault(secret, set()).add((found.lane.tenant, found.lane.id))
            assert secret not in found.lane.id
            if found.lane.parent is not None:
                assert (found.lane.tenant, found.lane.parent) in seen[secret]
    groups = list(seen.values())
    assert all(not (one & other) for at, one in enumerate(groups) for other in groups[at + 1 :])


@st.composite
def _interleaved(draw: st.DrawFn) -> list[int]:
    """Which conversation speaks next."""
    return draw(st.lists(st.integers(0, 4), min_size=5, max_size=40))


@given(_interleaved(), st.data())
@settings(max_examples=80)
def test_interleaved_conversations_with_distinct_openings_are_separated_exactly(
    order: list[int], data: st.DataObject
) -> None:
    """What they say after their openings is drawn from a few words, so that much of it is the same."""
    desk = Desk()
    texts: dict[int, list[str]] = {}
    lanes: dict[int, set[str]] = {}
    for name in order:
        said = texts.setdefault(name, [])
        if said:
            said += [data.draw(st.sampled_from(("Yes", "No"))), data.draw(st.sampled_from(("Why?", "Go on")))]
        else:
            said.append(f"I am number {name}")
        found = desk.send({"user-agent": "my-agent/1"}, desk.body("anthropic", words(*said)))
        lanes.setdefault(name, set()).add(found.lane.id)
    assert all(len(each) == 1 for each in lanes.values())
    assert len(set.union(*lanes.values())) == len(lanes)


@given(st.lists(st.tuples(TALKS, st.sampled_from(("one", "two"))), min_size=1, max_size=30))
@settings(max_examples=80)
def test_a_lane_found_by_its_chain_has_asked_for_what_is_repeated(requests: list[tuple[list[str], str]]) -> None:
    """Whatever is sent: a lane that is gone on with sent the same opening under the same agent, tenant and model."""
    desk = Desk()
    openings: dict[tuple[str, str], tuple[str, str]] = {}
    for texts, secret in requests:
        found = desk.send({"x-api-key": secret}, desk.body("anthropic", words(*texts)))
        place = (found.lane.tenant, found.lane.id)
        if found.why == "prefix chain":
            assert openings[place] == (texts[0], secret)
            assert len(texts) > 1
        else:
            assert place not in openings
            openings[place] = (texts[0], secret)
