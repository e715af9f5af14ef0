"""Model names that nobody knows: a misspelt one gets the nearest, a new one of a known provider is asked as it is."""

from __future__ import annotations

import pytest

from holdfast.facts import catalogue
from tests.cli.chats import Chatting

MISSPELT = "anthropic:claude-sonet-5-5"
MEANT = "did you mean anthropic:claude-sonnet-5-5?"


@pytest.fixture(autouse=True)
def facts_of_a_new_process() -> None:
    catalogue.shipped.cache_clear()


def words(text: str) -> str:
    return " ".join(text.split())


def test_an_unknown_model_is_asked_and_the_nearest_named_once(chat: Chatting) -> None:
    done = chat("--model", MISSPELT, input="One\n/cost\nTwo\n/model\nThree\n")
    assert done.code == 0
    assert MISSPELT in done.err
    assert words(done.err).count("did you mean") == 1
    assert MEANT in words(done.err)
    assert words(done.err).count(f"model '{MISSPELT}'") == 1  # not once more for its price


def test_a_later_version_is_no_misspelling(chat: Chatting) -> None:
    done = chat("--model", "anthropic:claude-sonnet-5-9", "Hello")
    assert done.code == 0
    assert "did you mean" not in done.err
    assert "the nearest that is known is anthropic:claude-sonnet-5-" in words(done.err)


def test_one_that_is_like_no_other_is_asked_without_a_guess(chat: Chatting) -> None:
    done = chat("--model", "anthropic:zzyzx", "Hello")
    assert "no facts about model 'anthropic:zzyzx'" in done.err
    assert "nearest" not in done.err
    assert "did you mean" not in done.err


def test_one_behind_a_route_is_named_once(chat: Chatting) -> None:
    done = chat("--model", "openrouter:anthropic/claude-sonet-5-5", "Hello")
    assert words(done.err).count("no facts about model") == 1
    assert "did you mean openrouter:anthropic/claude-sonnet-5-5?" in words(done.err)


def test_the_command_of_a_chat_names_the_nearest(chat: Chatting) -> None:
    done = chat(input="Hello\n/model claude-sonet-5-5\n/model anthropic:claude-sonet-5-5\nAgain\n")
    said = words(done.err)
    assert f"no model is named 'claude-sonet-5-5'; {MEANT}" in said
    assert f"'{MISSPELT}': careful values are used until an override describes it; {MEANT}" in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (f'model = "{MISSPELT}"', MEANT),
        ('model = "claude-sonet-5-5"', f'of the form provider:name, or "unset"; {MEANT}'),
        (f'model = "anthropic:claude-haiku-5-5"\nfallback = ["{MISSPELT}"]', MEANT),
        ('model = "anthropic:claude-haiku-5-5"\nfallback = ["claude-sonet-5-5"]', "agent.fallback: no model is named "),
    ],
)
def test_the_settings_are_looked_at_too(chat: Chatting, settings: str, said: str) -> None:
    (chat.workspace / "holdfast.toml").write_text(f"[agent]\n{settings}\n", "utf-8")
    done = chat("Hello")
    assert said in words(done.err)
    assert words(done.err).count("did you mean") == 1


def test_a_fallback_without_its_provider_is_found(chat: Chatting) -> None:
    (chat.workspace / "holdfast.toml").write_text(
        '[agent]\nmodel = "anthropic:claude-haiku-5-5"\nfallback = ["claude-sonnet-5-5"]\n', "utf-8"
    )
    done = chat(input="Hello\n/model\n")
    assert "If it cannot answer: anthropic:claude-sonnet-5-5 (agent.fallback)." in done.out


def test_warnings_are_said_once(chat: Chatting) -> None:
    broken = chat.workspace / ".holdfast" / "skills" / "broken"
    broken.mkdir(parents=True)
    (broken / "SKILL.md").write_text("no front matter", "utf-8")
    done = chat(input="One\n/fork\nTwo\n/fork\nThree\n")
    assert done.code == 0
    assert words(done.err).count("is left out") == 1
