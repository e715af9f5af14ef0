"""The message blocks of a lane's last request: what stood in the place of each."""

from __future__ import annotations

from holdfast.core.repairs import ByteMemory
from holdfast.core.repairs.history import BlockHistory, EarlierBlock, HistoryWalk, recall, record


def digest(name: str) -> bytes:
    return name.encode().ljust(16, b"-")


def history(client: str, first: str = "") -> BlockHistory:
    return BlockHistory([digest(c) for c in client], [digest(c) for c in first or client])


def walked(before: BlockHistory, now: str) -> list[str | None]:
    """For each block the first one in its place, in brackets where it is only a guess."""
    walk, found = HistoryWalk(before), []
    for name in now:
        match = walk.match(digest(name))
        place = None if match is None else match.first.decode().rstrip("-")
        found.append(place if match is None or match.sure else f"({place})")
    return found


def test_blocks_that_stand_where_they_stood_are_sure_and_further_ones_are_new() -> None:
    assert walked(history("abc"), "abcd") == ["a", "b", "c", None]
    assert HistoryWalk(history("a")).match(digest("a")) == EarlierBlock(digest("a"), True)


def test_a_block_that_departs_is_guessed_by_its_place() -> None:
    assert walked(history("abc"), "aBc") == ["a", "(b)", "c"]


def test_what_was_sent_in_another_form_is_known_in_both() -> None:
    assert walked(history("aBc", "abc"), "aBc") == ["a", "b", "c"]
    assert walked(history("aBc", "abc"), "abc") == ["a", "b", "c"]


def test_a_known_block_leads_back_into_step() -> None:
    assert walked(history("abcde"), "cDe") == ["c", "(d)", "e"]  # trimmed at the front
    assert walked(history("abcde"), "axbCde") == ["a", "(b)", "b", "(c)", "d", "e"]  # something was put in
    assert walked(history("gagbgc"), "gagBgc") == ["g", "a", "g", "(b)", "g", "c"]  # of two alike the nearest


def test_what_is_recorded_is_recalled_part_by_part() -> None:
    memory = ByteMemory()
    before, name = None, b""
    for now in (history("ab"), history("abc"), history("abcD", "abcd"), history("abcD", "abcd"), history("xy")):
        name = record(memory, name, before, now)
        before = recall(memory, name)
        assert before == now
    assert recall(memory, b"") == BlockHistory()


def test_what_only_grows_takes_the_room_of_what_was_added() -> None:
    memory, name, before = ByteMemory(), b"", None
    for size in range(1, 200):
        now = BlockHistory([digest(str(i)) for i in range(size)], [digest(str(i)) for i in range(size)])
        name, before = record(memory, name, before, now), now
    assert len(memory) < 200 * (32 + 32 + 150)


def test_a_part_that_is_lost_loses_the_history() -> None:
    memory = ByteMemory(500)
    first = record(memory, b"", None, history("ab"))
    name = record(memory, first, history("ab"), history("abc"))
    assert recall(memory, name) is not None
    memory.keep(b"x" * 200)
    assert recall(memory, name) is None
    assert recall(ByteMemory(), name) is None
