"""Places that change: found out after two changes, forgiven later; what is no evidence is not counted."""

from __future__ import annotations

import pytest

from holdfast.caches.prompts import Block
from holdfast.core.divergence import compare
from holdfast.core.ledger import Ledger, Position
from holdfast.core.plan import Sent
from holdfast.core.stability import MOST_POSITIONS, NEAR_END, observe, survival
from holdfast.core.strategies.economic import lifetime_prices
from tests.caches.prompts import SMALL, prompt
from tests.core.lanes import said, system, tool
from tests.core.warm_pool import sent

HEAD = [tool("bash"), system("host"), system("rules")]
WORTH = lifetime_prices(SMALL, "5m", "1h").worth


def conversation(count: int, **changed: Block) -> list[Block]:
    """Tools, two system texts and so many messages; `system_1`, `messages_3`… are other blocks."""
    blocks = [*HEAD, *(said(number) for number in range(count))]
    places = {"tools": 0, "system": 1, "messages": len(HEAD)}
    for name, block in changed.items():
        section, number = name.rsplit("_", 1)
        blocks[places[section] + int(number)] = block
    return blocks


class Watched:
    """A lane that sends one request after the other and watches its places."""

    def __init__(self, blocks: list[Block]) -> None:
        self.ledger = Ledger()
        self.last: Sent = sent(prompt(blocks, model=SMALL))
        self.blocks = blocks

    def send(self, blocks: list[Block]) -> str:
        now = prompt(blocks, model=SMALL)
        found = compare(self.last, now, (), SMALL)
        observe(self.ledger, self.last, found)
        self.last, self.blocks = sent(now), blocks
        return found.course

    def chances(self) -> list[float]:
        return survival(self.ledger, prompt(self.blocks, model=SMALL))


def clock(number: int) -> Block:
    return system(f"it is {number}")


def test_nothing_has_changed_so_all_will_come_again() -> None:
    lane = Watched(conversation(1))
    assert lane.send(conversation(3)) == "extension"
    assert lane.chances() == [1.0] * 6
    assert lane.ledger.positions == {}
    assert lane.ledger.compared == 1


def test_one_change_is_a_doubt_and_two_are_a_proof() -> None:
    lane = Watched(conversation(20, system_0=clock(0)))
    lane.send(conversation(22, system_0=clock(1)))
    assert lane.ledger.positions == {"system:0": Position(seen=1, changed=1)}
    assert lane.chances()[0] == 1.0
    assert min(lane.chances()) > WORTH
    lane.send(conversation(24, system_0=clock(2)))
    assert lane.chances()[0] == 1.0
    assert all(chance < WORTH for chance in lane.chances()[1:])


def test_a_place_that_keeps_still_is_believed_again() -> None:
    lane = Watched(conversation(20, system_0=clock(0)))
    for number in (1, 2, 3):
        lane.send(conversation(20 + number, system_0=clock(number)))
    assert lane.chances()[1] < WORTH
    before = lane.chances()[1]
    for number in range(24, 30):
        assert lane.send(conversation(number, system_0=clock(3))) == "extension"
        assert lane.chances()[1] > before
        before = lane.chances()[1]
    assert lane.chances()[1] > WORTH


def test_the_chances_of_places_are_multiplied() -> None:
    lane = Watched(conversation(20))
    lane.ledger.compared = 4
    lane.ledger.positions = {"system:0": Position(seen=4, changed=1), "system:1": Position(seen=4, changed=2)}
    first, second = 1 - 1 / 4.5, 1 - 2 / 4.5
    assert lane.chances()[:3] == pytest.approx([1.0, first, first * second])


@pytest.mark.parametrize(
    ("blocks", "course"),
    [
        (conversation(20), "resend"),
        ([*conversation(10), said(10, name="asked anew")], "fork"),
        ([*HEAD, said(0, 500, name="a summary"), said(1, 100, name="go on")], "compaction"),
    ],
    ids=["resend", "fork", "compaction"],
)
def test_no_evidence_of_instability(blocks: list[Block], course: str) -> None:
    lane = Watched(conversation(20))
    assert lane.send(blocks) == course
    assert (lane.ledger.compared, lane.ledger.positions) == (0, {})


def test_a_rewritten_newest_message_is_a_place_counted_from_the_end() -> None:
    """A client that adds a reminder to the newest message and takes it away again."""
    lane = Watched([*conversation(11), said(11, name="reminder 11", role="user")])
    for number in (13, 15, 17):
        lane.send([*conversation(number), said(number, name=f"reminder {number}", role="user")])
    assert set(lane.ledger.positions) == {"end:1"}
    chances = lane.chances()
    assert chances[-2] == 1.0
    assert chances[-1] < WORTH


@pytest.mark.parametrize(("from_end", "name"), [(NEAR_END, f"end:{NEAR_END}"), (NEAR_END + 1, f"messages:{20 - 9}")])
def test_places_near_the_end_are_counted_from_there(from_end: int, name: str) -> None:
    place = 20 - from_end
    lane = Watched(conversation(20))
    changed = conversation(22, **{f"messages_{place}": said(place, name="edited")})
    assert lane.send(changed) == "rewrite"
    assert set(lane.ledger.positions) == {name}


def test_system_text_is_never_counted_from_the_end() -> None:
    lane = Watched(conversation(1, system_1=clock(0)))
    lane.send(conversation(3, system_1=clock(1)))
    assert set(lane.ledger.positions) == {"system:1"}


def test_another_model_says_nothing_of_the_places() -> None:
    lane = Watched(conversation(20))
    found = compare(lane.last, prompt(conversation(22), model=SMALL), (), SMALL)
    other = sent(prompt(conversation(20)))  # of another model
    found = compare(other, prompt(conversation(22), model=SMALL), (), SMALL)
    assert found.divergence.what == "model"
    observe(lane.ledger, other, found)
    assert lane.ledger.positions == {}


def test_only_so_many_places_are_kept_and_the_least_changed_goes() -> None:
    lane = Watched(conversation(20))
    lane.ledger.compared = 1_000
    lane.ledger.positions = {f"messages:{n}": Position(10, 5) for n in range(1_000, 1_000 + MOST_POSITIONS - 1)}
    lane.send(conversation(22, messages_1=said(1, name="edited")))
    assert len(lane.ledger.positions) == MOST_POSITIONS
    again = said(1, name="edited again")
    lane.send(conversation(24, messages_1=again))
    assert lane.ledger.positions["messages:1"].changed == 2
    lane.send(conversation(26, messages_1=again, messages_2=said(2, name="edited too")))
    assert len(lane.ledger.positions) == MOST_POSITIONS
    assert "messages:2" not in lane.ledger.positions, "it has changed once, the others more often"
    assert {lane.ledger.positions[name].changed for name in ("messages:1", "messages:1000")} == {2, 5}
