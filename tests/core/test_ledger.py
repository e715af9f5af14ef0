"""A lane's ledger: a versioned value, small after a thousand turns."""

from __future__ import annotations

from hashlib import sha256

from holdfast.core import ledger as ledgers
from holdfast.core.edits import EditRef
from holdfast.core.ledger import VERSION, Ledger, Position
from holdfast.core.plan import SECTIONS, kind_of
from holdfast.core.repairs.state import FirstText, InsertedText, RepairState
from tests.caches.prompts import SMALL, prompt
from tests.core.lanes import said, system, tool
from tests.core.turns import Lane
from tests.core.warm_pool import sent

LIMIT = 512_000


def digest(name: object, size: int = 16) -> bytes:
    return sha256(str(name).encode()).digest()[:size]


def full() -> Ledger:
    """One with something in every member."""
    found = Ledger(client="cli", started=1.0, requests=2, settled=1, kind="tools", compared=1, grown=5.0, growths=1)
    found.last = sent(prompt([tool("bash"), system("host"), said(0)], (-1, "1h"), model=SMALL))
    found.gaps.see("user", "tools", 3)
    found.positions = {"system:0": Position(seen=3, changed=2)}
    found.edits = {digest("block"): EditRef(digest("block"), digest("bytes", 32), 4.0)}
    found.repairs = RepairState(first={digest(1): digest(2)}, texts={0: FirstText(digest(3), digest(4, 32))})
    found.repairs.inserts = {
        digest(5): [InsertedText(name="volatile-value", text=digest(6, 32), told={digest(7): digest(8)})]
    }
    found.reset = "compaction"
    return found


def test_it_is_read_back_as_it_was_written() -> None:
    found = ledgers.decode(ledgers.encode(full()))
    assert found == full()


def test_of_another_version_or_damaged_there_is_none() -> None:
    other = full()
    other.version = VERSION + 1
    assert ledgers.decode(ledgers.encode(other)) is None
    assert ledgers.decode(b"") is None
    assert ledgers.decode(ledgers.encode(full())[:-1]) is None


def test_it_holds_no_text() -> None:
    lane = Lane()
    lane.blocks[2] = system("the words of the host")
    lane.send()
    lane.turn()
    assert b"words" not in ledgers.encode(lane.ledger)
    last = lane.ledger.last
    assert (len(last), last.section(2), list(last.counts())[:3]) == (6, "system", [1_000, 1_000, 5_000])
    assert last.digest(5) == lane.blocks[5].digest
    assert len(last.digests) + len(last.tokens) + len(last.sections) == 21 * len(last)
    assert SECTIONS[last.sections[0]] == "tools"


def test_a_thousand_turns_fit_into_half_a_megabyte() -> None:
    """Five blocks a turn through the core, an edit in every third turn, and repairs that remember every call."""
    lane = Lane()
    for number in range(1_000):
        lane.blocks += [said(2 * number + 1, 40, name=f"call {i}", kind="tool_use") for i in range(2)]
        lane.blocks += [said(2 * number + 2, 100, name=f"result {i}", kind="tool_result") for i in range(3)]
        if number % 3 == 0:
            block = digest(("edit", number))
            lane.ledger.edits[block] = EditRef(block, digest(("bytes", number), 32), float(number))
        lane.ledger.repairs.first[digest(("canonical", number))] = digest(("first", number))
        if number % 10 == 0:
            insert = InsertedText(
                name="volatile-value", text=digest(number, 32), told={digest("clock"): digest(("now", number))}
            )
            lane.ledger.repairs.inserts[digest(("behind", number))] = [insert]
        if number % 50 == 0 or number == 999:
            lane.send()
    assert lane.ledger.last is not None
    assert len(lane.ledger.last) > 5_000
    assert kind_of(lane.prompt()) == "tools"
    data = ledgers.encode(lane.ledger)
    assert len(data) < LIMIT
    assert ledgers.decode(data) == lane.ledger
