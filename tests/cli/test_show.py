"""`holdfast show`: a session, a call, and what is said where an id is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli.show import command
from holdfast.records.events import Envelope, Ulids
from holdfast.records.events.calls import CachePlanned
from holdfast.store import open_store
from holdfast.store import operations as op
from tests.cli.commands import invoke, piped, refused, shown, use
from tests.report.workday import CHAT, CODING, NEW, SONNET, Workday
from tests.store.samples import NOON, call, usage

pytestmark = pytest.mark.usefixtures("workday_store")


def row(text: str, id_: str) -> str:
    return next(line for line in text.splitlines() if line and id_.startswith(line.split()[0]) and len(line) > 30)


def test_a_session_has_its_lanes_and_calls_with_prediction_beside_what_was_read(workday: Workday) -> None:
    text = piped(command, CODING, "--tenant", "t-one")
    assert text.startswith(f"Session {CODING} of claude-code\n")
    assert "11 calls (1 bypassed, 1 side, 2 without an answer) for $" in text
    assert any(line.split()[:2] == ["scout", SONNET] for line in text.splitlines())
    used = workday.usages["main 1"]
    cells = row(text, workday.calls["main 1"]).split()
    assert cells[2:6] == [f"{used.read:,}", f"{used.read:,}", f"{used.written:,}", "0"]
    assert "system_prompt_changed $0.0" in row(text, workday.calls["clock"])
    assert "reset: compaction $0.0" in row(text, workday.calls["compacted"])
    assert "failed: overloaded_error" in row(text, workday.calls["failed"])
    assert "abandoned" in row(text, workday.calls["left"])
    assert "side: a title" in row(text, workday.calls["title"])
    assert "bypassed: slow" in row(text, workday.calls["past"])
    assert "clock (1 break, $0.0" in text
    assert 'Or set cache.repair = "values" (`holdfast repair values`).' in text


def test_calls_name_their_lane_where_there_are_several() -> None:
    assert "LANE" in piped(command, CODING, "--tenant", "t-one").split("CALL  ")[1].splitlines()[0]
    assert "LANE" not in piped(command, CHAT).split("CALL  ")[1].splitlines()[0]


def test_without_an_id_the_session_used_last_is_shown(workday: Workday) -> None:
    text = piped(command, "--limit", "4")
    assert text.startswith(f"Session {CODING} of pi\n")
    assert "10 older calls left out; --limit shows more." in text
    assert "ping" in row(text, workday.calls["ping"])
    assert "pending" in row(text, workday.calls["pending"])


def test_a_call_has_its_page(workday: Workday) -> None:
    text = piped(command, workday.calls["clock"])
    facts = [(line[:13].strip(), line[13:]) for line in text.splitlines()]
    assert ("Call", workday.calls["clock"]) in facts
    assert ("Status", "settled") in facts
    assert ("Verdict", "as predicted") in facts
    assert ("Strategy", "rolling") in facts
    assert [name for name, _ in facts if name in ("Predicted", "Billed", "Cost", "Markers", "Reason", "Break", "Cure")]
    assert dict(facts)["Markers"].startswith("system[1] for 5m; messages[")
    assert dict(facts)["Suggested"].startswith("volatile-value at system[1]: ")
    assert "first token after 1.00 s, ended after 2.00 s" in dict(facts)["Started"]
    assert "; without a cache $0.0" in dict(facts)["Cost"]


def test_calls_of_other_kinds_have_theirs(workday: Workday) -> None:
    title = piped(command, workday.calls["title"])
    assert "Status       side, settled" in title
    assert "Why          a title" in title
    failed = piped(command, workday.calls["failed"])
    assert "Status       failed: overloaded_error" in failed
    assert "Billed       not known" in failed
    warned = piped(command, workday.calls["compacted"])
    assert "Event        gateway.preflight: action warned, dollars 0.2, limit 0.1" in warned
    assert "Reset        compaction" in warned
    strange = piped(command, workday.calls["mythical"])
    assert "Cost         price unknown" in strange
    assert "Client       evil?[31m?agent" in strange


def test_json_of_both(workday: Workday) -> None:
    whole = json.loads(piped(command, CHAT, "--json"))
    assert [each["id"] for each in whole["calls"]] == [workday.calls["chat 0"], workday.calls["chat 1"]]
    assert whole["calls"][1]["predicted"]["read"] == whole["calls"][1]["usage"]["read"] > 0
    one = json.loads(piped(command, workday.calls["clock"], "--json"))
    assert one["breaks"][0]["cure"] == "clock"


def test_the_beginning_that_a_table_shows_is_enough(workday: Workday) -> None:
    assert piped(command, CHAT[:8] + "…").startswith(f"Session {CHAT}")
    text = piped(command, CODING, "--tenant", "t-one")
    for line in text.split("EXPECTED")[1].splitlines()[1:12]:
        assert piped(command, line.split()[0]).startswith("Call ")


def test_what_is_not_known_is_said(workday: Workday) -> None:
    assert refused("show", "mythicle") == (
        "holdfast: there is no session or call 'mythicle'; did you mean mythical? "
        "`holdfast sessions` lists what there is\n"
    )
    assert "several tenants have the session" in refused("show", "5f0c")
    assert "give more of its characters" in refused("show", workday.calls["clock"][:3])


def test_without_anything_stored_it_is_an_error(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(workspace / "h.db", monkeypatch)
    assert str(invoke(command, NEW).exception).startswith("Nothing is stored yet")
    open_store(workspace / "h.db").close()
    assert str(invoke(command).exception).startswith("no session has any call yet")


@pytest.mark.parametrize("columns", [50, 80, 140])
@pytest.mark.parametrize("name", ["session", "clock", "compacted"])
def test_pages_fit_the_terminal(columns: int, name: str, workday: Workday) -> None:
    arguments = [CODING, "--tenant", "t-one"] if name == "session" else [workday.calls[name]]
    lines = shown(command, *arguments, columns=columns)
    assert max(map(len, lines)) <= columns


def test_repairs_edits_savings_and_what_was_not_predicted(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = (
        b'{"plan": {"strategy": "economic", "mode": "explicit", "marks": [{"block": 2, "ttl": ""}]}, "repairs": '
        b'[{"name": "tool-order", "path": "tools", "why": "", "saved_tokens": 9000, "applied": true}]}'
    )
    use(workspace / "h.db", monkeypatch)
    with open_store(workspace / "h.db") as store:
        planned = CachePlanned(call="00a", lane="l1", strategy="economic", edits=2)
        store.write(
            op.AppendEvents.of("t1", [Envelope.of(planned, id=Ulids().new(), at=NOON, session="s1", actor="system")])
        )
        for name, saved in (("00a", "0.25"), ("00b", "-0.5"), ("00c", "0")):
            verdict = f'{{"explained": false, "saved": {saved}}}'.encode()
            used = usage(cost="0.00001")
            store.write(
                op.PutCall(call(id=name, plan=plan, verdict=verdict, usage=used, reset="model_switch"))
            ).result()
    text = piped(command, "s1")
    assert "reset: model_switch; not as predicted; 1 repair" in text
    one, two = piped(command, "00a"), piped(command, "00b")
    assert "Strategy     economic, mode explicit" in one
    assert "Markers      block 2\n" in one
    assert "Edits        2 made" in one
    assert "Repaired     tool-order at tools (9,000 tokens)" in one
    assert "Verdict      not as predicted" in one
    assert "Cost         <$0.0001 (v1)" in one
    assert "Saved        $0.2500 less than the client alone would have paid" in one
    assert "Saved        $0.5000 more than the client alone would have paid" in two
    assert "Saved        nothing; it was as much as the client alone would have paid" in piped(command, "00c")


def test_help_has_examples() -> None:
    assert "holdfast show 5f0c7c1e" in piped(command, "--help")
