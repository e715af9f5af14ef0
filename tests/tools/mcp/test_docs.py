"""The program of the page on MCP works as it stands there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.mcp.hubs import plain

pytest.importorskip("mcp")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "mcp.md"


@pytest.mark.slow
def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    server = plain("mine")
    home = tmp_path / "home"
    home.mkdir()
    (home / "holdfast.toml").write_text(
        f"[mcp.servers.mine]\ncommand = {json.dumps(server.command)}\nargs = {json.dumps(list(server.args))}\n"
    )
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "sh"}}}')
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HOLDFAST_HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "What is in the newest ticket?\n"  # the simulated model says what it was asked
    assert "MCP server other: It is named by a file of the workspace and not approved" in done.stderr
    (log,) = home.glob("sessions/*.jsonl")
    assert "mcp__mine__echo" in log.read_text(encoding="utf-8")
