"""Settings that are accepted and change nothing: what is said of them, and of which nothing is."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import KEYS, Config, Settings, load
from holdfast.config.inert import DOORS, RULES, Door, notes, warning, warning_of
from holdfast.config.sections.cache import CacheSettings, KeepaliveSettings

ZONES = 'cache.strategy = "zones"\n'


def config(place: Path, text: str = "", **more: Any) -> Config:
    (place / "holdfast.toml").write_text(text)
    return load(workspace=place, home=place / "home", environ={"HOME": "/nowhere"}, **more)


def test_every_rule_is_about_keys_that_exist() -> None:
    for rule in RULES:
        for pattern in rule.keys:
            assert any(fnmatchcase(key, pattern) for key in KEYS), pattern
        assert set(rule.besides) <= set(KEYS)
        assert set(rule.doors) <= set(DOORS)


@pytest.mark.parametrize("door", DOORS)
def test_defaults_are_never_reported(tmp_path: Path, door: Door) -> None:
    found = config(tmp_path)
    assert warning(found, door) == ""
    assert warning_of(Settings(), door) == ""
    assert notes(found) == []


@pytest.mark.parametrize(
    ("text", "silent", "loud"),
    [
        ('cache.placement = "auto"', "", "agent gateway sdk"),
        ('cache.strategy = "zones"\ncache.placement = "auto"', "", "agent gateway sdk"),
        ('cache.strategy = "zones"\ncache.placement = "multi-zone"', "agent gateway sdk", ""),
        ('cache.retention = "short"', "", "agent gateway sdk"),
        ('cache.padding = "always"', "agent", "gateway sdk"),
        ('cache.padding = "off"', "agent gateway sdk", ""),
        ("cache.padding_min = 4000", "", "agent gateway sdk"),
        ('cache.padding = "always"\ncache.padding_min = 4000', "agent", "gateway sdk"),
        ('cache.padding_text = "a.md"', "agent", "gateway sdk"),
        ('cache.padding = "off"\ncache.padding_text = "a.md"', "", "agent gateway sdk"),
        ('cache.padding = "off"\ncache.padding_text = ""', "agent gateway sdk", ""),
        ("cache.keepalive.enabled = true", "agent gateway", "sdk"),
        ('cache.keepalive.enabled = true\nagent.model = "openai:gpt-6.1-sol"', "gateway", "agent"),
        (
            'cache.keepalive.enabled = true\nagent.model = "openai:gpt-6.1-sol"\n'
            'agent.fallback = ["gemini:gemini-2.5-pro"]',
            "gateway",
            "agent",
        ),
        ('cache.keepalive.enabled = true\nagent.model = "anthropic:claude-haiku-4-5"', "agent gateway", ""),
        (
            'cache.keepalive.enabled = true\nagent.model = "openai:gpt-6.1-sol"\n'
            'agent.fallback = ["anthropic:claude-haiku-4-5"]',
            "agent gateway",
            "",
        ),
        (
            'cache.keepalive.enabled = true\nagent.model = "openai:gpt-6.1-sol"\nagent.fallback = ["claude-haiku-4-5"]',
            "agent gateway",
            "",
        ),
        ('cache.keepalive.enabled = false\nagent.model = "openai:gpt-6.1-sol"', "agent gateway sdk", ""),
        ("cache.keepalive.breaker = 5", "", "agent gateway sdk"),
        ("cache.gemini.ttl_s = 600", "", "agent gateway sdk"),
        ("cache.gemini.enabled = true\ncache.gemini.ttl_s = 600", "agent gateway sdk", ""),
        ('cache.gemini.enabled = true\nagent.model = "gemini:gemini-2.5-pro"', "agent gateway", ""),
        ('cache.gemini.enabled = true\nagent.model = "anthropic:claude-haiku-4-5"', "gateway", "agent"),
        ('cache.gemini.enabled = true\nagent.fallback = ["gemini:gemini-2.5-pro"]', "agent", ""),
        ('cache.openai.store_completions = true\nagent.model = "anthropic:claude-haiku-4-5"', "gateway", "agent"),
        ('cache.openai.store_completions = true\nagent.model = "openai:gpt-6.1-sol"', "agent gateway", ""),
        ('cache.openai.cache_key = false\nagent.model = "anthropic:claude-haiku-4-5"', "gateway sdk", "agent"),
        ('cache.openai.cache_key = true\nagent.model = "anthropic:claude-haiku-4-5"', "agent gateway sdk", ""),
        ('cache.openai.cache_key = false\nagent.model = "openai:gpt-6.1-sol"', "agent gateway sdk", ""),
        ("cache.openai.cache_key = false", "agent gateway sdk", ""),
        ('cache.openrouter.caching = "never"\nagent.model = "anthropic:claude-haiku-4-5"', "gateway sdk", "agent"),
        ('cache.openrouter.caching = "seen"\nagent.model = "anthropic:claude-haiku-4-5"', "agent gateway sdk", ""),
        ('cache.openrouter.caching = "never"\nagent.model = "openrouter:openai/gpt-5.5"', "agent gateway sdk", ""),
        ('facts.overrides = ["seed-floors"]', "agent gateway", "sdk"),
        ("facts.overrides = []", "agent gateway sdk", ""),
        ('cache.repair = "on"\ncache.client_markers = "manage"', "agent gateway sdk", ""),
        (f'{ZONES}cache.retention = "short"\nagent.model = "gemini:gemini-2.5-pro"', "gateway", "agent"),
        (f'{ZONES}cache.retention = "short"\nagent.model = "anthropic:claude-haiku-4-5"', "agent", ""),
        (
            'cache.gemini.enabled = true\nagent.model = "anthropic:claude-haiku-4-5"\n'
            'agent.fallback = ["gemini:gemini-2.5-pro"]',
            "agent",
            "",
        ),
        (
            'cache.gemini.enabled = true\nagent.model = "anthropic:claude-haiku-4-5"\n'
            'agents.scout.agent.model = "gemini:gemini-2.5-pro"',
            "agent",
            "",
        ),
        ('agent.timezone = "UTC"\ntools.timeout_s = 9\nskills.index_chars = 9', "agent gateway sdk", ""),
        ("agent.max_calls = 7\nmemory.amnesia = true\ngateway.headers = false", "agent gateway sdk", ""),
    ],
)
def test_where_it_is_said(tmp_path: Path, text: str, silent: str, loud: str) -> None:
    found = config(tmp_path, text)
    for door in DOORS:
        if door in silent.split():
            assert warning(found, door) == ""
        if door in loud.split():
            assert warning(found, door).count("\n") == 0
            assert "no effect" in warning(found, door)


def test_one_line_for_all(tmp_path: Path) -> None:
    text = 'cache.padding = "always"\ncache.retention = "short"\ncache.adaptive = false\n'
    text += 'cache.gemini.ttl_s = 600\ncache.placement = "auto"'
    line = warning(config(tmp_path, text), "gateway")
    assert line == (
        "cache.padding, cache.retention, cache.adaptive and 2 more have no effect in the gateway; "
        "`holdfast config show` says why."
    )
    assert len(notes(config(tmp_path, text))) == 5


def test_keys_of_another_door_are_one_note_and_no_warning(tmp_path: Path) -> None:
    text = "[agent]\nmax_calls = 9\nretries = 1\n[tools]\ntimeout_s = 9\n[skills]\nindex_chars = 9\n[mcp]\nping_s = 9\n"
    found = config(tmp_path, text)
    assert [warning(found, door) for door in DOORS] == ["", "", ""]
    ((_, note),) = notes(found)
    assert note == "agent.max_calls, agent.retries, skills.index_chars and 2 more are for the agent only"


def test_a_flag_is_meant_for_the_door_that_is_opened(tmp_path: Path) -> None:
    found = config(tmp_path, flags={"gateway.port": 7})
    assert warning(found, "agent") == "gateway.port has no effect in the agent: it is for the gateway only."
    assert warning(found, "gateway") == ""


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"cache.repair": "on"}, True),
        ({"cache.repair": "off"}, True),
        ({"cache.repair": "suggest"}, False),
        ({"cache.repair": "on", "agent.volatile": "system"}, False),
        ({"cache.client_markers": "manage"}, True),
        ({"cache.client_markers": "improve", "agent.model": "anthropic:claude-haiku-4-5"}, False),
        ({"cache.client_markers": "respect", "agent.model": "anthropic:claude-haiku-4-5"}, True),
        ({"cache.client_markers": "respect", "agent.model": "openai:gpt-6.1-sol"}, False),
        ({"cache.client_markers": "respect", "agent.model": "openrouter:openai/gpt-6.1-sol"}, False),
        ({"cache.client_markers": "respect"}, False),
    ],
)
def test_what_is_done_to_the_requests_of_clients(tmp_path: Path, flags: dict[str, Any], said: bool) -> None:
    """The agent sends nothing that is to be repaired but where its memory changes its system text, and no markers of
    its own; how OpenAI's breakpoints are switched off, the setting decides for it too."""
    found, key = config(tmp_path, flags=flags), next(iter(flags))
    line = f"{key} has no effect in the agent: it is for clients of the gateway and of the SDKs only."
    assert warning(found, "agent") == (line if said else "")
    assert not any(key in warning(found, door) for door in DOORS if door != "agent")


def test_a_key_without_effect_in_two_doors_for_two_reasons_is_noted_twice(tmp_path: Path) -> None:
    text = 'cache.keepalive.enabled = true\nagent.model = "openai:gpt-6.1-sol"'
    said = [note for each, note in notes(config(tmp_path, text)) if each.key == "cache.keepalive.enabled"]
    assert [note.partition(":")[0] for note in said] == [
        "cache.keepalive.enabled is set, but without effect in SDK clients",
        "cache.keepalive.enabled is set, but without effect in the agent",
    ]


def test_limits_of_the_gateway_that_hold_for_the_agent_too(tmp_path: Path) -> None:
    found = config(tmp_path, flags={"gateway.limits.idle_s": 7, "gateway.limits.connect_s": 7})
    assert warning(found, "agent") == ""
    assert notes(found) == []


def test_settings_without_origins_are_compared_with_the_defaults() -> None:
    settings = Settings(cache=CacheSettings(keepalive=KeepaliveSettings(enabled=True)))
    assert warning_of(settings, "sdk") == (
        "cache.keepalive.enabled has no effect in SDK clients: "
        "keep-alive pings are sent by the gateway and the agent only."
    )
    assert warning_of(settings, "gateway") == ""


def test_memory_for_clients_acts_in_every_door(tmp_path: Path) -> None:
    """In the agent as memory of its own: a key for the other doors is no word there."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "holdfast.toml").write_text("[memory]\ninject = true\n", "utf-8")
    found = config(tmp_path)
    assert [warning(found, door) for door in DOORS] == ["", "", ""]


def test_what_an_agent_s_block_sets_counts_for_that_agent(tmp_path: Path) -> None:
    found = config(tmp_path, '[agents.scout.cache]\nretention = "short"')
    assert warning(found, "agent") == ""
    assert "cache.retention" in warning(found, "agent", agent="scout")
