"""`holdfast breaks`: the list, the cures below it, its JSON twin."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.breaks import COLUMNS, command
from holdfast.core.cures import reset_cure
from holdfast.store import open_store
from holdfast.store import operations as op
from tests.cli.commands import invoke, piped, shown, use
from tests.report.workday import CHAT, CODING, UNPRICED, Workday
from tests.store.samples import found

pytestmark = pytest.mark.usefixtures("workday_store")


def test_a_pipe_gets_a_line_for_each_break_and_every_cure_once(workday: Workday) -> None:
    text = piped(command)
    head, *lines = text.splitlines()
    assert all(column.title in head for column in COLUMNS)
    assert sum("ttl_expired_5m " in line for line in lines[:12]) == 11
    clock = next(line for line in lines if "system_prompt_changed" in line)
    assert workday.calls["clock"][:10] in clock
    assert "system[1] @15," in clock
    assert " clock " in clock
    cures = text.split("What to do:\n")[1]
    assert cures.index("  ttl_expired_5m (11 breaks, $0.3") < cures.index("  clock (1 break, $0.0")
    past = next(line for line in lines if " bypassed " in line)
    assert workday.calls["past"][:10] in past
    assert "  bypass (1 turn, $0.01" in cures
    assert lines[-1].startswith("12 breaks, 1 turn past Holdfast or without markers: $0.3")


def test_resets_on_request() -> None:
    assert "compaction" not in piped(command)
    text = piped(command, "--resets")
    assert "reset: compaction" in text
    assert "12 breaks, 1 turn past Holdfast or without markers and 1 reset: $" in text
    assert "compaction (" not in text, "a reset needs no cure"


def test_a_reset_that_can_be_avoided_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "resets.db") as store:
        for reason in ("memory_block_changed", "bypassed", "compaction"):
            cure = reset_cure(reason)
            row = found(reason=reason, tokens=9, dollars=Decimal("0.1"), cure=cure.name, data=msgspec.json.encode(cure))
            store.write(op.PutBreak(row)).result()
    use(tmp_path / "resets.db", monkeypatch)
    text = piped(command, "--resets")
    assert "memory_blocks (1 reset, $0.10" in text
    assert 'Or set memory.placement = "deltas".' in text
    assert "bypass (1 turn, $0.10" in text
    assert "x-holdfast-memory" in text
    assert "compaction (" not in text


def test_one_session_by_its_beginning() -> None:
    found = json.loads(piped(command, "--session", CODING[:5], "--tenant", "t-one", "--json"))
    assert [(each["reason"], each["cause"]) for each in found["breaks"]] == [
        ("bypassed", None),
        (None, "system_prompt_changed"),
    ]
    assert piped(command, "--session", CHAT) == "Nothing broke the cache yet.\n"
    assert "there is no session 'nobody'" in str(invoke(command, "--session", "nobody").exception)


def test_the_limit_keeps_the_newest() -> None:
    text = piped(command, "--limit", "2")
    assert "2 breaks: $0.0" in text
    assert ", the newest; --limit shows more." in text
    assert piped(command, "--until", "2020-01-01").startswith("Nothing broke the cache in this window")


@pytest.mark.parametrize("columns", [30, 80, 140, 300])
def test_it_fits_the_terminal(columns: int) -> None:
    lines = shown(command, "--resets", columns=columns)
    assert max(map(len, lines)) <= columns
    if columns == 80:
        assert {"WHEN", "CAUSE", "WHERE", "TOKENS", "COST", "CALL"} <= set(lines[0].split())


def test_a_break_without_price_place_or_cure(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(workspace / "h.db", monkeypatch)
    assert piped(command).startswith("Nothing is stored yet")
    assert json.loads(piped(command, "--json"))["breaks"] == []
    with open_store(workspace / "h.db") as store:
        store.write(op.PutBreak(found(model=UNPRICED, tokens=5_000, path="tools\x07")))
        store.write(op.PutBreak(found(model=UNPRICED, tokens=5_000, cause="unknown"))).result()
    text = piped(command)
    assert "tools?" in text
    assert "What to do" not in text
    assert text.splitlines()[-1] == "2 breaks: unknown. `holdfast show CALL` shows one call."


def test_help_has_examples() -> None:
    assert "holdfast breaks --since 7d --limit 100" in piped(command, "--help")
