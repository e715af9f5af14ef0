"""Which client a command line starts, whatever stands in front of it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from holdfast.gateway.commands import CLIENTS, program_of
from holdfast.gateway.launch import READ


def told(line: str) -> tuple[str, str | None]:
    """The client, and the word behind which arguments may stand."""
    command = shlex.split(line)
    found = program_of(command)
    return found.client, None if found.index is None else command[found.index]


@pytest.mark.parametrize(
    ("line", "client", "word"),
    [
        ("claude -p hi", "claude", "claude"),
        ("/opt/x/bin/claude -p codex", "claude", "/opt/x/bin/claude"),
        ("npx claude", "claude", "claude"),
        ("npx -y @openai/codex@0.166 exec hi", "codex", "@openai/codex@0.166"),
        ("npx --package @openai/codex codex exec", "codex", "codex"),
        ("npm exec -- @google/gemini-cli", "gemini", "@google/gemini-cli"),
        ("pnpm dlx opencode-ai run x", "opencode", "opencode-ai"),
        ("bunx @mariozechner/pi-coding-agent", "pi", "@mariozechner/pi-coding-agent"),
        ("env A=b -u C opencode run", "opencode", "opencode"),
        ("env -i PATH=/bin claude", "claude", "claude"),
        ("timeout -k 5 10m nice -n 10 claude", "claude", "claude"),
        ("sudo -E -u me codex", "codex", "codex"),
        ("stdbuf -oL nohup aider --model sonnet", "aider", "aider"),
        ("uvx --from aider-chat aider", "aider", "aider"),
        ("uv tool run aider", "aider", "aider"),
        ("uv run --with x python -m aider --model sonnet", "aider", "aider"),
        ("pipx run aider-chat", "aider", "aider-chat"),
        ("poetry run aider", "aider", "aider"),
        ("conda run -n work aider", "aider", "aider"),
        ("python3.12 -m aider", "aider", "aider"),
        ("python /venv/bin/aider", "aider", "/venv/bin/aider"),
        ("direnv exec . claude", "claude", "claude"),
        ("op run -- claude", "claude", "claude"),
        ("bash -c 'claude -p hi'", "claude", None),
        ("bash -lc 'cd app && X=1 exec npx claude -p \"a; b\"'", "claude", None),
        ("sh -c 'git pull; codex exec x | tee log'", "codex", None),
        ("npx -c 'codex exec'", "codex", None),
        ("env -S 'A=b claude'", "claude", None),
    ],
)
def test_behind_whatever_it_is_started(line: str, client: str, word: str | None) -> None:
    assert told(line) == (client, word)


@pytest.mark.parametrize(
    "line",
    [
        "python my_agent.py --model claude",
        "python -c 'print()' claude",
        "python codex.py",
        "python -m my_agent claude",
        "node pi.js",
        "bash agent.sh claude",
        "bash -c 'claude; codex'",
        "bash -c 'echo claude'",
        "bash -c 'a \"b'",
        "make claude",
        "npm run claude",
        "git commit -m claude",
        "env",
        "timeout 5",
        "uv pip install claude",
        "xargs claude",
    ],
)
def test_what_may_be_anything_is_not_known(line: str) -> None:
    assert told(line) == ("", None)


def test_a_file_belongs_to_the_package_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "node_modules" / "@openai" / "codex"
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@openai/codex", "version": "1"}')
    script = package / "bin" / "start.js"
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cx").symlink_to(script)
    assert told(f"node --enable-source-maps {script} exec") == ("codex", str(script))
    assert told(f"{tmp_path}/bin/cx exec") == ("codex", f"{tmp_path}/bin/cx")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert told("nice cx exec") == ("codex", "cx")
    (package / "package.json").write_text('{"name": "somebody-elses"}')
    assert told("cx exec") == ("", None)


def test_what_the_command_sets_itself() -> None:
    found = program_of(["env", "-i", "A=b", "env", "C=d", "claude"])
    assert (found.environ, found.cleared) == ({"A": "b", "C": "d"}, True)
    assert program_of(["bash", "-c", "CODEX_API_KEY=k codex"]).environ == {"CODEX_API_KEY": "k"}


def test_all_of_them_are_clients_that_can_be_told() -> None:
    assert set(READ) == CLIENTS
