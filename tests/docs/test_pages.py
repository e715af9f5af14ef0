"""The documentation keeps its promises: its Python runs, its commands and settings exist, its links lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.cli import cli
from holdfast.config import KEYS, SECTIONS
from holdfast.records.events import CATALOGUE
from tests.docs.pages import PAGES, ROOT, Command, commands, examples, spans, text

RUN = {
    "index.md": "",
    "quickstart.md": "",
    "caching.md": "",
    "strategies.md": "",
    "library.md": "",
    "engine.md": "",
    "tools.md": "",
    "skills.md": "",
    "agent.md": "",
    "memory.md": "",
    "mcp.md": "",
    "simulator.md": "## In process",
}
"""The pages whose Python is run, and from which heading on. `tests/pytest_plugin` runs that of pytest.md."""

PYTHON = [
    pytest.param(code, shown, id=f"{page}-{i}")
    for page, heading in RUN.items()
    for i, (code, shown) in enumerate(examples(page, heading))
]
COMMANDS = sorted({command for page in PAGES for command in commands(page)})
SETTING = re.compile(r"(?:agents\.NAME\.)?([a-z]+(?:\.[a-z_0-9]+)+)(?: = .+)?")
"""A setting as pages name it: `section.key`, maybe with a value."""
NO_SETTINGS = (".md", ".py", ".toml", ".json", ".jsonl", ".db", ".yaml", ".yml", ".txt", ".html", ".sh", ".lock")
OBJECTS = {"skills.state", "skills.at_reset"}
"""Members of objects in examples whose name is also that of a section."""


def run(code: str, home: Path) -> str:
    """What a block prints; it must end well, in an empty home and an empty directory."""
    (work := home / "work").mkdir()
    environment = {**os.environ, "HOME": str(home), "HOLDFAST_HOME": str(home / ".holdfast")}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("code", "shown"), PYTHON)
def test_python_blocks_run_and_print_what_stands_below_them(code: str, shown: str | None, tmp_path: Path) -> None:
    printed = [line.rstrip() for line in run(code, tmp_path).splitlines()]
    assert printed
    assert shown is None or printed == shown.splitlines()


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_commands_and_their_options_exist(command: Command) -> None:
    follow(command.words)


HELP = cli.context_settings
"""click keeps a command's help option as it is first asked for: with `-h`, which others call in this process."""


def follow(words: tuple[str, ...]) -> None:
    """Walk down the groups and look each option up; nothing is run."""
    here: click.Command = cli
    context = click.Context(cli, info_name="holdfast", **HELP)
    rest = list(words)
    while isinstance(here, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        found = here.get_command(context, name.strip(",.;:"))
        if found is None and here.invoke_without_command and here is not cli:
            return  # an argument of the group itself
        assert found is not None, f"there is no command {name!r}"
        here, context = found, click.Context(found, info_name=name, parent=context)
    known = {
        option for parameter in here.get_params(context) for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for word in rest[: rest.index("--")] if "--" in rest else rest:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0].strip(",.") in known, f"{context.command_path} has no option {word}"


def test_every_command_and_option_is_on_a_page() -> None:
    called = {command.words[:count] for command in COMMANDS for count in (1, 2)}
    assert [words for words, _ in all_commands() if words not in called] == []
    named = {word for page in PAGES for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text(page))}
    assert [
        (*words, option) for words, context in all_commands() for option in long(context) if option not in named
    ] == []


def all_commands(
    group: click.Group = cli, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    context = click.Context(group, info_name="holdfast")
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield (*words, name), click.Context(found, info_name=name, **HELP)
        if isinstance(found, click.Group):
            yield from all_commands(found, (*words, name))


def long(context: click.Context) -> list[str]:
    """The long names of a command's own options; `--help` goes without saying."""
    shown = [each for each in context.command.params if isinstance(each, click.Option) and not each.hidden]
    return [max(each.opts, key=len) for each in shown]


@pytest.mark.parametrize("page", PAGES)
def test_settings_exist(page: str) -> None:
    """Events are named in the same way and have to exist too."""
    unknown = [
        name for name in settings(page) if not is_setting(name) and name not in CATALOGUE and name not in OBJECTS
    ]
    assert not unknown


def settings(page: str) -> list[str]:
    """What reads like a setting: it begins with the name of a section of the configuration."""
    found = [match[1] for span in spans(page) if (match := SETTING.fullmatch(span))]
    heads = {section.split(".")[0] for section in SECTIONS}
    return [name for name in found if name.split(".")[0] in heads and not name.endswith(NO_SETTINGS)]


def is_setting(name: str) -> bool:
    return name in KEYS or name in SECTIONS


def test_the_checks_would_notice() -> None:
    with pytest.raises(AssertionError, match="no command 'frobnicate'"):
        follow(("frobnicate",))
    with pytest.raises(AssertionError, match="no option --loud"):
        follow(("skills", "list", "--loud"))
    assert is_setting("cache.keepalive.enabled")
    assert not is_setting("cache.keepalive.on")
    assert len(COMMANDS) > 100
    assert "cache.keepalive.enabled" in settings("strategies.md")
    assert sum(shown is not None for page in RUN for _, shown in examples(page)) >= 6


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_title(page: str) -> None:
    lines = re.sub(r"^```.*?^```", "", text(page), flags=re.DOTALL | re.MULTILINE).splitlines()
    assert [line for line in lines if line.startswith("# ")] == [lines[0]]


def build(configuration: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Not `--quiet`: mkdocs then counts no warnings, and nothing is strict any more."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(configuration), "--site-dir", str(site)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    result = build(ROOT / "mkdocs.yml", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "index.html").is_file()


@pytest.mark.slow
def test_links_and_anchors_that_lead_nowhere_stop_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Title\n\n[a](nowhere.md) and [b](#missing)\n")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    result = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert result.returncode != 0
    assert "nowhere.md" in result.stderr
    assert "#missing" in result.stderr
