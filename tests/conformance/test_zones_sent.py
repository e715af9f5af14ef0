"""Seed cache-page, adaptive retention and its settings, in what a provider gets: from an agent that `holdfast.toml`
configures, and from a client behind the gateway."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.config.sections.cache import CacheSettings
from holdfast.simulator import Simulator
from holdfast.simulator.server import running as simulating
from tests.agent.bench import Bench, settings
from tests.agent.open_agents import opened
from tests.agent.summaries import begin_talk, small, summarizer, summary
from tests.gateway.gate import eventually, gated
from tests.simulator.http_client import ANTHROPIC, LONG, Client

LARGE = 4_000  # lines of a system text that make a first write of more than 20,000 tokens


class Sent(NamedTuple):
    """The lifetimes of a request's markers: behind the head, and in the messages."""

    head: str
    recent: tuple[str, ...]


def lifetimes(body: dict[str, Any]) -> Sent:
    head = [_ttl(block) for block in (*body.get("tools", ()), *body["system"])]
    said = [_ttl(block) for message in body["messages"] for block in message["content"]]
    return Sent(next((ttl for ttl in reversed(head) if ttl), ""), tuple(ttl for ttl in said if ttl))


def _ttl(block: Any) -> str:
    mark = block.get("cache_control") if isinstance(block, dict) else None
    return "" if mark is None else mark.get("ttl", "5m")


def talked(place: Path, *, turns: int, gap: float = 30, lines: int = 0, **chosen: Any) -> list[Sent]:
    """What an agent's requests are marked with, under strategy `zones` and these settings of `[cache]`."""
    chosen = {"strategy": "zones", "padding": "always"} | chosen
    overrides = chosen.pop("retention_overrides", {})
    toml = "[cache]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in chosen.items())
    toml += "[cache.retention_overrides]\n" + "".join(f'"{name}" = "{value}"\n' for name, value in overrides.items())
    own = "Keep to the order of the list.\n" * lines or None

    async def main() -> list[Sent]:
        async with opened(place, toml) as agent:
            session = await agent.sessions.create(system_prompt=own)
            for turn in range(turns):
                await session.ask(f"turn {turn}")
                agent.clock.advance(gap)
            return [lifetimes(body) for body in agent.bodies]

    return asyncio.run(main())


def test_c1_c10_c26_entries_become_long_after_three_turns_that_read_and_recent_ones_stay_short(tmp_path: Path) -> None:
    sent = talked(tmp_path, turns=6)
    assert [each.head for each in sent] == ["5m"] * 4 + ["1h"] * 2
    assert {each.recent[-1] for each in sent} == {"5m"}


@pytest.mark.parametrize(("after", "long"), [(1, 2), (2, 3)])
def test_c1_the_number_of_reads_is_a_setting(tmp_path: Path, after: int, long: int) -> None:
    sent = talked(tmp_path, turns=4, escalate_after_reads=after)
    assert [each.head for each in sent] == ["5m"] * long + ["1h"] * (4 - long)


def test_c1_turns_without_reads_confirm_nothing(tmp_path: Path) -> None:
    assert {each.head for each in talked(tmp_path, turns=6, gap=400)} == {"5m"}


@pytest.mark.parametrize(
    ("lines", "limit", "second"), [(LARGE, None, "1h"), (LARGE, 200_000, "5m"), (0, None, "5m"), (0, 1_000, "1h")]
)
def test_c2_a_large_first_write_makes_entries_long_on_turn_2(
    tmp_path: Path, lines: int, limit: int | None, second: str
) -> None:
    more = {} if limit is None else {"escalate_first_write_tokens": limit}
    assert [each.head for each in talked(tmp_path, turns=2, lines=lines, **more)] == ["5m", second]


@pytest.mark.parametrize(("retention", "ttl"), [("short", "5m"), ("long", "1h")])
def test_c29_c69_without_adaptation_the_lifetime_is_the_fixed_one(tmp_path: Path, retention: str, ttl: str) -> None:
    sent = talked(tmp_path, turns=2, adaptive=False, retention=retention)
    assert {each.head for each in sent} == {ttl}


def test_c68_short_never_becomes_long_and_none_is_the_kill_switch(tmp_path: Path) -> None:
    for name in ("short", "none"):
        (tmp_path / name).mkdir()
    assert {each.head for each in talked(tmp_path / "short", turns=6, retention="short")} == {"5m"}
    assert set(talked(tmp_path / "none", turns=2, retention="none")) == {Sent("", ())}


@pytest.mark.parametrize(("placement", "markers"), [("single", 2), ("multi-zone", 3), ("auto", 2)])
def test_c70_placement(tmp_path: Path, placement: str, markers: int) -> None:
    *_, last = talked(tmp_path, turns=8, placement=placement)
    assert len(last.recent) == markers


@pytest.mark.parametrize(
    ("overrides", "head"),
    [
        ({"claude-sonnet": "short"}, "5m"),
        ({"claude": "none", "claude-sonnet": "long"}, "1h"),
        ({"claude": "none"}, ""),
        ({"claude-haiku": "none"}, "1h"),
    ],
)
def test_c71_the_longest_prefix_of_the_models_name_wins(tmp_path: Path, overrides: dict[str, str], head: str) -> None:
    *_, last = talked(tmp_path, turns=2, adaptive=False, retention_overrides=overrides)
    assert last.head == head


@pytest.mark.parametrize(("promote", "recent"), [(True, "1h"), (False, "5m")])
def test_c72_on_a_slow_channel_the_recent_zone_becomes_long(tmp_path: Path, promote: bool, recent: str) -> None:
    more = {"escalate_first_write_tokens": 1_000, "promote_recent_zone": promote}
    sent = talked(tmp_path, turns=7, gap=301, **more)
    assert [each.recent[-1] for each in sent[:4]] == ["5m"] * 4
    assert sent[-1].recent[-1] == recent


@pytest.mark.parametrize("clean", [True, False])
def test_c27_what_was_read_is_known_after_a_restart(tmp_path: Path, clean: bool) -> None:
    """Three turns before the restart, or the kill, and two after it: the fifth request is long."""

    async def main() -> list[Sent]:
        config = settings(cache=CacheSettings(strategy="zones", padding="always"))
        async with Bench(tmp_path, config=config) as bench:
            session = await bench.sessions.create()
            for turn in range(5):
                if turn == 3:
                    session = await bench.resumed(session, clean=clean)
                await session.ask(f"turn {turn}")
                bench.clock.advance(30)
            return [lifetimes(json.loads(raw)) for _, _, raw in bench.sent]

    assert [each.head for each in asyncio.run(main())] == ["5m"] * 4 + ["1h"]


@pytest.mark.parametrize(("turns", "long"), [(3, 3), (5, 5)])
def test_c3_turns_that_read_no_more_than_the_system_text_make_entries_short_again(
    tmp_path: Path, turns: int, long: int
) -> None:
    """A client behind the gateway whose system text begins with a clock."""
    flags = {
        "cache__strategy": "zones",
        "cache__repair": "off",
        "cache__escalate_first_write_tokens": 1_000,
        "cache__unstable_after_turns": turns,
    }
    said: list[dict[str, str]] = []
    with simulating(Simulator()) as upstream, gated(tmp_path, upstream, **flags) as gate:
        for turn in range(8):
            said.append({"role": "user", "content": f"turn {turn}"})
            body = {"model": "claude-opus-4-6", "max_tokens": 100, "messages": said}
            body["system"] = f"It is {max(turn, 1):02d}:00. {LONG}"
            headers = ANTHROPIC | {"x-holdfast-session": "s"}
            assert Client(gate.address).post("/v1/messages", body, headers).status == 200
            said.append({"role": "assistant", "content": "Yes."})
        eventually(lambda: len(gate.calls) == 8)
        sent = [json.loads(call.passage.raw) for call in gate.calls if call.passage is not None]
    assert [lifetimes(each).head for each in sent] == ["5m", *["1h"] * (long + 1), *["5m"] * (6 - long)]


def test_c10_the_summary_of_a_compaction_is_a_zone_of_its_own(tmp_path: Path) -> None:
    cache = CacheSettings(strategy="zones", placement="multi-zone", padding="always")

    async def main() -> tuple[str, list[Any]]:
        async with Bench(tmp_path, config=small(cache=cache), reply=summarizer()) as bench:
            session = await begin_talk(bench, 6)
            await session.compact()
            for number in range(4):
                await session.ask(f"turn {number} " + "word " * 900)
            body = json.loads(bench.sent[-1][2])
            return summary(session), [block for message in body["messages"] for block in message["content"]]

    text, blocks = asyncio.run(main())
    (place,) = (number for number, block in enumerate(blocks) if text in block.get("text", ""))
    assert "cache_control" in blocks[place]
