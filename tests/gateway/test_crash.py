"""Gateways that are killed in the middle of streams: what was sent stays sent, byte for byte, and sessions go on."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from .crashes import Home, Talk, Talker, home, parts_without_reason
from .gate import eventually

SETTLES_S = 2.0
"""Seconds after which what ended is on the disk: only new bytes of ours are waited for."""


def talkers() -> list[Talker]:
    return [
        Talker("ada", "anthropic", named=True),
        Talker("ben", "anthropic", named=False),
        Talker("cyd", "anthropic", named=True, rekeys=True),
        Talker("dot", "openai_chat", named=False),
    ]


def lanes(talker: Talker, place: Home) -> set[str]:
    stored = place.calls()
    ids = [call for each in talker.kept if (call := each.header("x-holdfast-call")) is not None]
    return {stored[call]["lane"] for call in ids if call in stored}


def told(talker: Talker, place: Home) -> int:
    """How many requests carry texts of ours."""
    return sum(place.witness.bodies.get(each.number, b"").count(b"current time") > 1 for each in talker.asked)


def check(everybody: list[Talker], place: Home, kills: list[float]) -> None:
    place.check()
    stored = place.calls()
    for talker in everybody:
        assert parts_without_reason(talker, place.witness) == []
        assert len(lanes(talker, place)) == 1, talker.name
        assert told(talker, place) > 3, talker.name
        for each in talker.asked:
            call = each.header("x-holdfast-call")
            assert call is not None or each.heard is None, each.heard
            if each.ended is not None and all(not each.began < at < each.ended + SETTLES_S for at in kills):
                assert stored[call or ""]["status"] == "settled", stored[call or ""]
        resets = [reset for each in talker.kept[1:] if (reset := each.header("x-holdfast-reset")) is not None]
        assert set(resets) <= ({"repair_forgotten"} if talker.rekeys else set()), (talker.name, resets)
        assert len(resets) <= len(kills), resets


@pytest.mark.slow
def test_a_killed_gateway_goes_on_where_it_was(tmp_path: Path) -> None:
    everybody, chance, kills = talkers(), random.Random(5), []
    with home(tmp_path) as place:
        gateway = place.start()
        with Talk(everybody) as talk:
            talk.ports.append(gateway.port)
            while any(len(talker.said) < 2 for talker in everybody) and not talk.errors:
                time.sleep(0.01)
            for _ in range(9):
                time.sleep(chance.uniform(0.0, 0.9))
                talk.ports.clear()
                kills.append(time.time())
                gateway.kill()
                gateway = place.start()
                talk.ports.append(gateway.port)
            before = [len(talker.said) for talker in everybody]
            while any(len(t.said) < n + 2 for t, n in zip(everybody, before, strict=True)) and not talk.errors:
                time.sleep(0.01)
        assert gateway.stop() == 0
        check(everybody, place, kills)


@pytest.mark.slow
def test_gateways_that_share_a_home_survive_each_other(tmp_path: Path) -> None:
    everybody, chance, kills = talkers()[:3], random.Random(6), []
    with home(tmp_path) as place:
        gateways = [place.start(), place.start()]
        with Talk(everybody) as talk:
            talk.ports += [gateway.port for gateway in gateways]
            while any(len(talker.said) < 2 for talker in everybody) and not talk.errors:
                time.sleep(0.01)
            for number in range(4):
                time.sleep(chance.uniform(0.2, 1.0))
                dies = gateways[number % 2]
                talk.ports.remove(dies.port)
                kills.append(time.time())
                dies.kill()
                gateways[number % 2] = place.start()
                talk.ports.append(gateways[number % 2].port)
        assert [gateway.stop() for gateway in gateways] == [0, 0]
        check(everybody, place, kills)


@pytest.mark.slow
def test_a_gateway_that_is_asked_to_end_finishes_its_streams(tmp_path: Path) -> None:
    everybody = talkers()
    with home(tmp_path) as place:
        gateway = place.start()
        for talker in everybody:
            assert talker.ask(gateway.port)
        threads = [threading.Thread(target=talker.ask, args=(gateway.port,)) for talker in everybody]
        for thread in threads:
            thread.start()
        eventually(lambda: all(f"{talker.name}.1" in place.witness.bodies for talker in everybody))
        assert gateway.stop() == 0
        for thread in threads:
            thread.join(20)
        assert [len(talker.said) for talker in everybody] == [2, 2, 2, 2]
        place.check()
        stored = place.calls()
        assert len(stored) == 8
        for talker in everybody:
            for each in talker.asked:
                row = stored[each.header("x-holdfast-call") or ""]
                assert row["status"] == "settled"
                assert row["output"] > 0
