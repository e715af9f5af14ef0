"""Reports of breaks for programs on the official SDKs: an engine with a store writes them as the gateway does."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anthropic
import pytest

from holdfast import Engine
from holdfast.config import Settings, load_config
from holdfast.config.sections.cache import BreaksSettings, CacheSettings
from holdfast.config.sections.server import StoreSettings
from holdfast.engine.reports import WORDS_MASKED, Reports
from holdfast.simulator import Simulator
from holdfast.simulator.server import running
from holdfast.store import open_store

TEXT = "You look after a loader that reads every record of a file. " * 500


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(directory.glob("*.jsonl")) for line in path.read_text().splitlines()]


def talk(engine: Engine, address: str) -> None:
    """A conversation whose system text becomes another one, which is a break."""
    with anthropic.Anthropic(base_url=address, api_key="k", max_retries=0, http_client=engine.http_client()) as client:
        for number, word in enumerate(("red", "red", "green")):
            history = [
                {"role": role, "content": f"{role} {n}"} for n in range(number) for role in ("user", "assistant")
            ]
            client.messages.create(
                model="claude-opus-4-6",
                max_tokens=64,
                system=[{"type": "text", "text": f"{word} {TEXT}", "cache_control": {"type": "ephemeral"}}],
                messages=[*history, {"role": "user", "content": f"user {number}"}],  # type: ignore[list-item]
                extra_headers={"x-holdfast-session": "s"},
            )
    engine.close(now=time.time())


def played(place: Path, settings: Settings | None = None, *, stored: bool = True, **more: Any) -> None:
    with running(Simulator()) as address:
        if not stored:
            talk(Engine(settings, **more), address)
            return
        with open_store(place / "h.db") as store:
            talk(Engine(settings, store=store, **more), address)


def test_an_engine_with_a_store_writes_them_into_the_home(tmp_path: Path, home: Path) -> None:
    played(tmp_path)
    (line,) = lines(home / "cache-breaks")
    assert (line["cause"], line["path"], line["masked"]) == ("system_prompt_changed", "system[0]", WORDS_MASKED)
    assert "green" not in json.dumps(line)
    assert not (tmp_path / "HOLDFAST_HOME").exists()


def test_the_configured_settings_say_where_how_many_and_with_which_words(tmp_path: Path, home: Path) -> None:
    chosen = load_config({"cache.breaks.dir": "broken", "store.keep_bodies": True})
    played(tmp_path, chosen.settings)
    (line,) = lines(tmp_path / "broken")
    assert [(each["removed"], each["added"]) for each in line["changes"]] == [("red", "green")]
    assert "masked" not in line
    assert not (home / "cache-breaks").exists()


@pytest.mark.parametrize(
    ("directory", "place"),
    [("HOLDFAST_HOME/b", "home/b"), ("~/b", "user/b"), ("b", "b"), ("{tmp}/elsewhere/b", "elsewhere/b")],
)
def test_settings_that_a_program_makes_itself(tmp_path: Path, directory: str, place: str) -> None:
    breaks = BreaksSettings(dir=directory.replace("{tmp}", str(tmp_path)))
    played(tmp_path, Settings(cache=CacheSettings(breaks=breaks), store=StoreSettings(keep_bodies=True)))
    (line,) = lines(tmp_path / place)
    assert line["changes"]


def test_none_are_written_where_none_are_kept_or_nothing_is_stored(tmp_path: Path, home: Path) -> None:
    played(tmp_path, Settings(cache=CacheSettings(breaks=BreaksSettings(keep=0))))
    played(tmp_path, stored=False)
    assert not (home / "cache-breaks").exists()


def test_reports_that_the_engine_was_made_with_stay_its_own(tmp_path: Path, home: Path) -> None:
    played(tmp_path, reports=Reports(tmp_path / "own"))
    assert len(lines(tmp_path / "own")) == 1
    assert not (home / "cache-breaks").exists()
