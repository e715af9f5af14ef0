"""How each client is told where the gateway is, and what is left as the user chose it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from msgspec.structs import asdict

from holdfast.config.sections.server import UpstreamSettings
from holdfast.gateway.commands import CLIENTS, program_of
from holdfast.gateway.launch import ANY, READ, Chosen, chosen, client_name, launch, outside

GATEWAY = "http://127.0.0.1:8788"
ADDRESS = "http://127.0.0.1:4000/run/1f"
OFFICIAL = asdict(UpstreamSettings())


def choose(client: str, **environ: str) -> Chosen:
    return chosen(client, environ, GATEWAY, OFFICIAL)


class TestNames:
    @pytest.mark.parametrize("program", ["claude", "/usr/local/bin/claude", "claude.cmd", "Claude.exe"])
    def test_a_client_is_known_by_its_program(self, program: str) -> None:
        assert client_name([program, "-p", "codex"]) == "claude"


class TestVariables:
    def test_any_program_gets_what_the_sdks_read(self, tmp_path: Path) -> None:
        ready = launch(["python", "agent.py"], {"PATH": "/bin"}, ADDRESS, tmp_path)
        assert ready.command == ("python", "agent.py")
        assert ready.environment == {
            "PATH": "/bin",
            "ANTHROPIC_BASE_URL": ADDRESS,
            "ANTHROPIC_API_BASE": ADDRESS,
            "ANTHROPIC_API_URL": ADDRESS,
            "OPENAI_BASE_URL": f"{ADDRESS}/v1",
            "OPENAI_API_BASE": f"{ADDRESS}/v1",
            "GOOGLE_GEMINI_BASE_URL": ADDRESS,
            "GEMINI_API_BASE": f"{ADDRESS}/v1beta",
            "OPENROUTER_API_BASE": f"{ADDRESS}/api/v1",
        }

    def test_a_known_client_gets_only_what_it_reads(self, tmp_path: Path) -> None:
        assert launch(["claude"], {}, ADDRESS, tmp_path).environment == {"ANTHROPIC_BASE_URL": ADDRESS}
        told = launch(["opencode"], {}, ADDRESS, tmp_path).environment
        assert told == {"ANTHROPIC_BASE_URL": f"{ADDRESS}/v1", "OPENAI_BASE_URL": f"{ADDRESS}/v1"}
        assert "OPENAI_BASE_URL" not in launch(["aider"], {}, ADDRESS, tmp_path).environment

    def test_only_addresses_are_set(self, tmp_path: Path) -> None:
        """A key of ours would take the place of a login with a subscription."""
        names = {each.name for variables in (ANY, *READ.values()) for each in variables}
        assert all(name.endswith(("_BASE_URL", "_API_BASE", "_API_URL")) for name in names)
        environ = {"ANTHROPIC_API_KEY": "sk-own", "CLAUDE_CODE_OAUTH_TOKEN": "own"}
        assert launch(["claude"], environ, ADDRESS, tmp_path).environment.items() >= environ.items()

    def test_a_proxy_is_not_asked_for_this_machine(self, tmp_path: Path) -> None:
        environ = {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "intern, 127.0.0.1"}
        told = launch(["claude"], environ, ADDRESS, tmp_path).environment
        assert told["NO_PROXY"] == told["no_proxy"] == "intern,127.0.0.1,localhost"
        assert "NO_PROXY" not in launch(["claude"], {}, ADDRESS, tmp_path).environment


class TestChosen:
    def test_an_own_server_becomes_the_upstream(self) -> None:
        assert choose("claude", ANTHROPIC_BASE_URL="http://own:8000/").upstreams == {"anthropic": "http://own:8000"}
        assert choose("any", OPENAI_BASE_URL="https://own/x/v1").upstreams == {"openai": "https://own/x"}
        found = choose("aider", OPENROUTER_API_BASE="https://own/api/v1").upstreams
        assert found == {"openrouter": "https://own/api"}
        assert choose("opencode", ANTHROPIC_BASE_URL="http://own/v1").upstreams == {"anthropic": "http://own"}

    def test_a_variable_that_the_client_does_not_read_is_no_choice(self) -> None:
        """Codex does not know OPENAI_BASE_URL: with it its key would go to a server it was not meant for."""
        assert choose("codex", OPENAI_BASE_URL="https://own/v1") == Chosen()
        assert choose("claude", OPENAI_BASE_URL="https://own/v1") == Chosen()

    @pytest.mark.parametrize("address", [GATEWAY, "http://localhost:8788/run/7", "https://api.anthropic.com", " "])
    def test_the_gateway_itself_and_the_provider_are_no_choice(self, address: str) -> None:
        assert choose("claude", ANTHROPIC_BASE_URL=address) == Chosen()

    @pytest.mark.parametrize(
        "address",
        ["http://user:secret@own", "http://own?key=1", "ftp://own", "own:8000", "http://own:99999", "http://[own"],
    )
    def test_what_no_upstream_can_stand_for_is_kept(self, address: str, tmp_path: Path) -> None:
        environ = {"ANTHROPIC_BASE_URL": address}
        found = choose("claude", **environ)
        assert found == Chosen(untouched=("ANTHROPIC_BASE_URL",))
        assert launch(["claude"], environ, ADDRESS, tmp_path, found.untouched).environment == environ

    def test_an_address_with_another_end_is_kept(self) -> None:
        assert choose("any", OPENAI_BASE_URL="https://own/openai").untouched == ("OPENAI_BASE_URL",)

    def test_of_two_that_differ_the_second_is_kept(self) -> None:
        found = choose("any", OPENAI_BASE_URL="http://one/v1", OPENAI_API_BASE="http://two/v1")
        assert found == Chosen({"openai": "http://one"}, ("OPENAI_API_BASE",))


class TestCodex:
    def test_is_told_by_an_argument(self, tmp_path: Path) -> None:
        ready = launch(["codex", "exec", "hello"], {"CODEX_API_KEY": "sk-own"}, ADDRESS, tmp_path)
        assert ready.command == ("codex", "-c", f'openai_base_url="{ADDRESS}/v1"', "exec", "hello")

    @pytest.mark.parametrize(
        ("status", "left"), [("Logged in using ChatGPT", True), ("API key configured - ***", False)]
    )
    def test_with_a_subscription_it_is_left_alone(self, tmp_path: Path, status: str, left: bool) -> None:
        codex = tmp_path / "codex"
        codex.write_text(f'#!/bin/sh\ntest "$*" = "login status" && echo "{status}" >&2\n')
        codex.chmod(0o755)
        assert bool(outside([str(codex), "exec"], {"HOME": "/nowhere"})) is left

    def test_one_that_cannot_say_is_left_alone(self, tmp_path: Path) -> None:
        assert outside([str(tmp_path / "codex")], {})
        assert not outside([str(tmp_path / "codex")], {"CODEX_API_KEY": "sk-own"})


class TestWrapped:
    def test_arguments_stand_behind_the_client(self, tmp_path: Path) -> None:
        ready = launch(["npx", "-y", "codex", "exec"], {"CODEX_API_KEY": "k"}, ADDRESS, tmp_path)
        assert ready.command == ("npx", "-y", "codex", "-c", f'openai_base_url="{ADDRESS}/v1"', "exec")

    @pytest.mark.parametrize("front", [["env", "-i"], ["sudo"], ["env", "ANTHROPIC_BASE_URL=http://own"]])
    def test_what_would_be_taken_away_is_said_right_before_it(self, tmp_path: Path, front: list[str]) -> None:
        ready = launch([*front, "claude", "-p"], {}, ADDRESS, tmp_path)
        assert ready.command == (*front, "env", f"ANTHROPIC_BASE_URL={ADDRESS}", "claude", "-p")

    def test_a_geminis_login_is_not_put_in_danger(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It takes the address for a way of logging in, which it refuses."""
        monkeypatch.chdir(tmp_path)
        environ = TestGemini().login(tmp_path, "oauth-personal")
        told = launch(["make", "agent"], environ, ADDRESS, tmp_path).environment
        assert "GOOGLE_GEMINI_BASE_URL" not in told
        assert told["ANTHROPIC_BASE_URL"] == ADDRESS


class TestGemini:
    def login(self, home: Path, way: str) -> dict[str, str]:
        (home / ".gemini").mkdir()
        settings = {"security": {"auth": {"selectedType": way}}}
        (home / ".gemini" / "settings.json").write_text("// mine\n" + json.dumps(settings))
        return {"HOME": str(home), "GEMINI_API_KEY": "own"}

    def test_with_a_key_it_is_told_by_a_variable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        environ = self.login(tmp_path, "gemini-api-key")
        assert not outside(["gemini"], environ)
        assert launch(["gemini"], environ, ADDRESS, tmp_path).environment["GOOGLE_GEMINI_BASE_URL"] == ADDRESS

    def test_with_a_login_or_none_it_is_left_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert outside(["gemini"], {"HOME": str(tmp_path), "GEMINI_API_KEY": "own"})
        assert outside(["gemini"], self.login(tmp_path, "oauth-personal"))


class TestPi:
    def test_is_told_by_an_extension(self, tmp_path: Path) -> None:
        ready = launch(["pi", "-p", "hello"], {"HOME": str(tmp_path)}, ADDRESS, tmp_path)
        assert ready.command == ("pi", "--extension", str(tmp_path / "holdfast.js"), "-p", "hello")
        written = (tmp_path / "holdfast.js").read_text()
        assert f'pi.registerProvider("anthropic", {{ baseUrl: "{ADDRESS}" }});' in written
        assert f'pi.registerProvider("openai", {{ baseUrl: "{ADDRESS}/v1" }});' in written

    def test_providers_with_an_address_of_the_users_stay(self, tmp_path: Path) -> None:
        own = tmp_path / ".pi" / "agent" / "models.json"
        own.parent.mkdir(parents=True)
        own.write_text('{"providers": {"anthropic": {"baseUrl": "http://own"}}}')
        launch(["pi"], {"HOME": str(tmp_path)}, ADDRESS, tmp_path)
        written = (tmp_path / "holdfast.js").read_text()
        assert '"anthropic"' not in written
        assert '"openai"' in written

    def test_its_own_commands_get_nothing(self, tmp_path: Path) -> None:
        assert launch(["pi", "list"], {}, ADDRESS, tmp_path).command == ("pi", "list")


class TestQwen:
    def test_with_an_address_in_its_settings_it_is_left_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert not outside(["qwen"], {"HOME": str(tmp_path)})
        (tmp_path / ".qwen").mkdir()
        (tmp_path / ".qwen" / "settings.json").write_text('{"security": {"auth": {"baseUrl": "https://own/v1"}}}')
        assert outside(["qwen"], {"HOME": str(tmp_path)})


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
