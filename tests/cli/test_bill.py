"""`holdfast bill`: what was paid, by anything, in a table, in words and as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.cli.bill import BY, command
from holdfast.records import Usage
from holdfast.store import open_store
from holdfast.store import operations as op
from tests.cli.commands import invoke, piped, shown, use
from tests.report.workday import CHAT, CODING, GPT, SONNET, UNPRICED
from tests.store.samples import NOON, call, usage

pytestmark = pytest.mark.usefixtures("workday_store")


def test_a_line_for_each_model_and_a_total() -> None:
    head, *lines = piped(command).splitlines()
    assert head.split()[:6] == ["MODEL", "CALLS", "PROMPT", "OUTPUT", "HIT", "PAID"]
    assert head.split()[6:] == ["NO", "CACHE", "BREAKS", "LOST", "SAVED"]
    assert [line.split()[0] for line in lines[:2]] == [SONNET, GPT]
    unpriced = next(line for line in lines if line.startswith(UNPRICED))
    assert unpriced.split()[5:7] == ["unknown", "unknown"]
    total = lines[4].split()
    assert (total[0], total[5][0], total[5][-1]) == ("total", "$", "+")


def test_the_bill_in_words() -> None:
    text = piped(command)
    assert "28 calls (1 bypassed, 1 ping, 1 side, 3 without an answer) for $0.4" in text
    assert "; without a cache $0.4" in text
    assert "The price of 1 call is unknown; the sums go without (+)." in text
    assert "12 breaks cost $0.3285, 1 reset $0.0" in text
    assert "1 turn went past Holdfast or without markers, for $0.0103 more; `holdfast breaks` lists them." in text


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("columns", [40, 80, 140])
def test_by_anything_in_any_terminal(by: str, columns: int) -> None:
    lines = shown(command, "--by", by, columns=columns)
    assert max(map(len, lines)) <= columns
    assert lines[0].split()[0] == by.upper()
    assert any(line.startswith("total") for line in lines)


def test_sessions_of_several_tenants_are_told_apart() -> None:
    text = piped(command, "--by", "session")
    assert f"{CODING[:10]} (t-two)" in text
    assert f"{CODING[:10]} (t-one)" in text
    assert "(t-" not in piped(command, "--by", "session", "--tenant", "t-one")


def test_one_session() -> None:
    found = json.loads(piped(command, "--session", CHAT[:6], "--json"))
    assert [each["id"] for each in found["models"]] == [GPT]
    assert "there is no session" in str(invoke(command, "--session", "nobody").exception)


def test_the_limit_shortens_the_list_and_not_the_sum() -> None:
    text = piped(command, "--limit", "1")
    assert "28 calls" in text
    assert "3 more models in the total alone; --limit shows them." in text


@pytest.fixture
def far_west(workday_store: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC+9")
        time.tzset()
        yield
    time.tzset()


def test_days_are_those_of_the_reader_and_in_json_those_of_utc(far_west: None) -> None:
    text = piped(command, "--by", "day")
    assert [line.split()[0] for line in text.splitlines()[1:4]] == ["2027-01-14", "2027-01-15", "total"]
    found = json.loads(piped(command, "--json"))
    assert ([each["id"] for each in found["days"]], found["zone"]) == (["2027-01-15"], "UTC")
    assert "with --json those of UTC" in " ".join(piped(command, "--help").split())


def test_nothing_to_pay(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert piped(command, "--until", "2020-01-01").startswith("There is nothing to pay in this window")
    use(workspace / "h.db", monkeypatch)
    assert piped(command).startswith("Nothing is stored yet")
    assert json.loads(piped(command, "--json"))["total"]["calls"] == 0
    open_store(workspace / "h.db").close()
    assert piped(command) == "There is nothing to pay yet.\n"


def test_unknown_prices_are_never_zero(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(workspace / "h.db", monkeypatch)
    with open_store(workspace / "h.db") as store:
        store.write(op.PutCall(call(id="c1", model=UNPRICED, usage=usage(cost=None)))).result()
        assert "1 call; the price is unknown." in piped(command)
        assert "$0" not in piped(command)
        store.write(op.PutCall(call(id="c1", model=UNPRICED, usage=None, status="failed"))).result()
        assert "1 call (1 without an answer); nothing was billed." in piped(command)


@pytest.mark.parametrize(
    ("saved", "words"), [("0.5", "$0.5000 less than"), ("-1.25", "$1.25 more than"), ("0", "as much as")]
)
def test_what_holdfast_saved_or_lost(saved: str, words: str, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(workspace / "h.db", monkeypatch)
    with open_store(workspace / "h.db") as store:
        store.write(op.PutCall(call(id="c1", verdict=f'{{"explained": true, "saved": {saved}}}'.encode()))).result()
        store.write(op.PutCall(call(id="c2", model="anthropic:other"))).result()
    text = piped(command)
    assert "SAVED" in text.splitlines()[0]
    assert f"Through Holdfast it was {words} the clients alone would have paid" in text
    assert ("nobody has read yet" in text) is saved.startswith("-")
    assert text.splitlines()[2].endswith(" -"), "no call of this model says what it saved"


def test_what_is_no_longer_stored_is_named_so(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(workspace / "h.db", monkeypatch)
    with open_store(workspace / "h.db") as store:
        store.write(op.PutCall(call(id="c1", model=SONNET, client=None))).result()
        store.prune(NOON + 7_200_000_000)
    for by, name in (("session", "(no longer stored)"), ("client", "(not known)"), ("kind", "(no longer stored)")):
        assert piped(command, "--by", by).splitlines()[1].startswith(name)
    assert "Of 1 call the sums alone are kept" in piped(command)


def test_cheaper_than_without_a_cache_is_less(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(workspace / "h.db", monkeypatch)
    with open_store(workspace / "h.db") as store:
        used = Usage(read=10_000_000, cost=Decimal(2), price_version="v")
        store.write(op.PutCall(call(id="c1", model=SONNET, usage=used))).result()
        assert "1 call for $2.00; without a cache $20.00: 90% less." in piped(command)
        plain = Usage(input=1_000_000, cost=Decimal(2), price_version="v")
        store.write(op.PutCall(call(id="c1", model=SONNET, usage=plain))).result()
    assert "1 call for $2.00; without a cache the same." in piped(command)


def test_a_ping_alone_has_nothing_to_be_compared_with(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(workspace / "h.db", monkeypatch)
    with open_store(workspace / "h.db") as store:
        store.write(op.PutCall(call(id="c1", model=SONNET, kind="ping"))).result()
    assert "1 call (1 ping) for $0.1000.\n" in piped(command)


def test_help_has_examples() -> None:
    assert "holdfast bill --by day --since 30d" in piped(command, "--help")
