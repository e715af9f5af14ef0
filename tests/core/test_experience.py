"""What is learned beyond a lane: classes of gaps, kept as a versioned value."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.experience import VERSION, Client, Experience, Gaps, RouteExperience, decode, encode


@pytest.mark.parametrize(("gap", "place"), [(0, 0), (300, 0), (300.1, 1), (3_600, 1), (3_600.1, 2)])
def test_gaps_fall_into_classes_by_the_lifetimes(gap: float, place: int) -> None:
    gaps = Gaps()
    gaps.see("user", "tools", gap)
    assert gaps.tools == [float(place == n) for n in range(3)]
    assert gaps.user == [0, 0, 0]


def test_what_follows_what_is_counted() -> None:
    gaps = Gaps()
    for before, kind in (("user", "tools"), ("tools", "tools"), ("tools", "user"), ("user", "user")):
        gaps.see(before, kind, 1)  # type: ignore[arg-type]
    assert (gaps.after_user, gaps.after_tools) == ([1, 1], [1, 1])
    assert (gaps.user[0], gaps.tools[0]) == (2, 2)


def test_gaps_of_clients_are_added_up() -> None:
    some, others = Gaps(user=[1, 2, 3]), Gaps(user=[1, 0, 1], tools=[4, 0, 0], after_tools=[1, 1])
    some.add(others)
    assert some == Gaps(user=[2, 2, 4], tools=[4, 0, 0], after_tools=[1, 1])
    assert others.user == [1, 0, 1]


def learned() -> Experience:
    found = Experience()
    client = found.client("cli")
    client.gaps.see("user", "user", 400)
    client.returns.add(400)
    client.lanes, client.asked, client.saved, client.reserved = 3, [3.0, 5.0, 8.0, 12.0, 12.0], 0.7, 0.3
    found.route("anthropic:claude-sonnet-5-5").raises = "yes"
    found.calibration = found.calibration.observe("anthropic:claude-sonnet-5-5", 1_000, 1_100)
    return found


def test_it_is_read_back_as_it_was_written_but_for_what_was_pending() -> None:
    found = decode(encode(learned()))
    expected = learned()
    expected.clients["cli"].reserved = 0.0
    assert found == expected
    assert found.route("anthropic:claude-sonnet-5-5").raises == "yes"


def test_of_another_version_or_damaged_it_is_learned_again() -> None:
    other = learned()
    other.version = VERSION + 1
    assert decode(encode(other)) == Experience()
    assert decode(b"\xc1") == Experience()
    assert decode(msgspec.msgpack.encode({"clients": 3})) == Experience()


def test_a_client_and_a_route_are_made_where_they_are_first_asked_for() -> None:
    found = Experience()
    assert found.client("cli") is found.client("cli")
    assert (found.client("cli"), found.route("m")) == (Client(), RouteExperience())
