"""Keys stay out of a session: commands do not get them, and no result that holds one is sent, logged or offloaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.agent.guides import PRIVILEGED
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import CommandSettings
from holdfast.facts.credentials import MASK
from holdfast.records import Text, ToolResult
from holdfast.tools import Tool, ToolContext, ToolExecutionError, ToolOutput
from holdfast.tools.guides import wrapped
from tests.agent.bench import Bench, settings
from tests.agent.subagents import do, obliging

SECRET = "pLanted0123456789wOrd"
KEY = f"sk-ant-api03-{SECRET}-AbCdEf"
PLAIN = f"plain-{SECRET}"
"""A key without a form, as some providers hand them out."""
PEM = f"-----BEGIN PRIVATE KEY-----\n{SECRET * 3}\n{SECRET * 3}\n-----END PRIVATE KEY-----\n"


async def _tells(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    if input.get("fail"):
        raise ToolExecutionError(f"refused the key {KEY}", {"key": KEY})
    return ToolOutput(content=(Text("a"), Text(f'{{"key":"{KEY}"}}')), metadata={"key": KEY})


TELLS = Tool(name="tells", description="Tells.", run=_tells, effect="read", guide=f"Use it with {KEY}.")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{KEY}-other")
    monkeypatch.setenv("MISTRAL_API_KEY", PLAIN)
    monkeypatch.setenv("CORP_PASS", f"corp-{SECRET}")
    monkeypatch.setenv("GROQ_API_KEY", "let-through")
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text(f"A=1\nANTHROPIC_API_KEY={KEY}\nMISTRAL_API_KEY={PLAIN}\nB=2\n")
    (work / "key.pem").write_text(PEM)
    (work / "long.json").write_text("x " * 7_368 + f'"{KEY}"' + " y" * 9_000)  # a page ends within the key
    (work / "edge.txt").write_text("q " * 150 + KEY + " " + "y " * 35 + "NEEDLE" + " z" * 300)  # shown from within it
    home = tmp_path / "home"
    home.mkdir()
    (home / "admin-token").write_text(f"{SECRET}admin\n")
    return tmp_path


def config() -> Settings:
    made = settings()
    command = CommandSettings(hide=("CORP_*",), pass_=("GROQ_API_KEY",))
    return msgspec.structs.replace(made, tools=msgspec.structs.replace(made.tools, command=command))


def told(bench: Bench) -> list[str]:
    """The newest results, as the provider got them."""
    blocks = [block for block in bench.bodies()[-1].messages[-1].content if isinstance(block, ToolResult)]
    return ["\n".join(part.text for part in block.content if isinstance(part, Text)) for block in blocks]


def traces(place: Path) -> list[str]:
    """Files but those of the workspace in which the secret stands."""
    files = [path for path in place.rglob("*") if path.is_file() and "work" not in path.relative_to(place).parts]
    assert len(files) > 3
    return [str(path) for path in files if SECRET.encode() in path.read_bytes() and path.name != "admin-token"]


async def test_no_key_is_sent_or_stored(planted: Path) -> None:
    async with Bench(planted, config=config(), reply=obliging, tools=(TELLS,)) as bench:
        session = await bench.sessions.create()

        async def results(*made: tuple[str, dict[str, Any]]) -> list[str]:
            await session.ask(do(*made))
            return told(bench)

        (env,) = await results(("run_command", {"command": "env"}))
        assert "GROQ_API_KEY=let-through" in env
        assert not any(name in env for name in ("ANTHROPIC_API_KEY", "MISTRAL_API_KEY", "CORP_PASS", MASK))
        masked = f"A=1\nANTHROPIC_API_KEY=sk-ant-{MASK}\nMISTRAL_API_KEY={MASK}\nB=2\n"
        shown, cat, found, edge, pem, page, token = await results(
            ("read_file", {"path": ".env"}),
            ("run_command", {"command": "cat .env"}),
            ("grep_files", {"pattern": "KEY=", "path": ".env"}),
            ("grep_files", {"pattern": "NEEDLE"}),
            ("read_file", {"path": "key.pem"}),
            ("read_file", {"path": "long.json"}),
            ("run_command", {"command": f"cat {bench.home}/admin-token"}),
        )
        assert shown == masked
        assert cat == f"{masked}[exit code 0]"
        assert found.count(MASK) == 2
        assert MASK in edge
        assert "AbCdEf" not in edge
        assert pem == f"-----BEGIN PRIVATE KEY-----{MASK}-----END PRIVATE KEY-----\n"
        assert page.count(MASK) + page.count('"\n[Line 1') == 1
        assert token == f"{MASK}\n[exit code 0]"
        long, fine, failed = await results(
            ("run_command", {"command": "for n in $(seq 100); do cat .env; done; cat /proc/$PPID/environ"}),
            ("tells", {}),
            ("tells", {"fail": True}),
        )
        assert "offloaded to disk" in long
        assert fine.startswith(f'a\n{{"key":"sk-ant-{MASK}"}}')
        assert f"Use it with sk-ant-{MASK}." in fine
        assert failed == f"refused the key sk-ant-{MASK}"
        started, *_ = await results(("run_command", {"command": "cat .env key.pem; sleep 2", "background": True}))
        assert started == "Started as p1."
        (said,) = await results(("process_output", {"process": "p1", "wait_s": 0.3}))
        assert said.count(MASK) == 3
        reads = do(("read_file", {"path": ".env"}), ("run_command", {"command": "cat .env"}))
        await results(("delegate", {"tasks": [{"task": reads, "role": "helper"}]}))
        child = next(body for body in reversed(bench.bodies()) if "helper" in str(body.messages[0]))
        assert str(child).count(MASK) == 4
        assert not [raw for _, _, raw in bench.sent if SECRET.encode() in raw]
    assert traces(planted) == []


async def test_a_mask_is_never_written_in_place_of_a_key(planted: Path) -> None:
    async with Bench(planted, config=config(), reply=obliging) as bench:
        session = await bench.sessions.create()
        shown = f"ANTHROPIC_API_KEY=sk-ant-{MASK}"
        await session.ask(
            do(
                ("write_file", {"path": ".env", "content": f"{shown}\nB=3\n"}),
                ("patch_file", {"path": ".env", "old": f"{shown}\n", "new": "\n"}),
                ("patch_file", {"path": ".env", "old": "B=2", "new": f"B=2\n{shown}"}),
                ("run_command", {"command": f"echo '{shown}' > .env"}),
                ("patch_file", {"path": ".env", "old": "B=2", "new": "B=3"}),
            )
        )
        *refused, done = told(bench)
        assert all(MASK in each and "real one would be overwritten" in each for each in refused)
        assert done == f"Patched .env: 1 replacement at line 4.\n{wrapped(PRIVILEGED.text)}"
    assert (planted / "work" / ".env").read_text() == f"A=1\nANTHROPIC_API_KEY={KEY}\nMISTRAL_API_KEY={PLAIN}\nB=3\n"
