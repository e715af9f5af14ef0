"""Agent frameworks under the fixture, as they come: their own messages, tools and clients.

pydantic-ai and LangChain are part of this environment; deepagents and the OpenAI Agents SDK have one of their own
(`make test-clients`), in which a real pytest is run: their packages come first, then ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.programs import TIMEOUT, interpreter

pytestmark = pytest.mark.slow

SITE = Path(pytest.__file__).parents[1]
TESTS = Path(__file__).parent / "frameworks"
START = f"import site, sys; site.addsitedir({str(SITE)!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.mark.parametrize(
    ("name", "installed", "said"),
    [
        ("pydantic_ai", None, "4 passed"),
        ("langchain", None, "3 passed"),
        ("deep_agents", ("deepagents", "deepagents"), "1 passed"),
        ("openai_agents", ("openai-agents", "the OpenAI Agents SDK"), "1 passed"),
    ],
    ids=["pydantic-ai", "langchain", "deepagents", "openai-agents"],
)
def test_an_agent(name: str, installed: tuple[str, str] | None, said: str, tmp_path: Path) -> None:
    python = sys.executable if installed is None else interpreter(*installed)
    test = tmp_path / "test_agent.py"
    test.write_text((TESTS / f"{name}.py").read_text("utf-8"), "utf-8")
    flags = ("-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin", str(test))
    ours = ("PYTEST_", "LANG", "COVERAGE_PROCESS_")  # measured, frameworks take twice as long to load
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    done = subprocess.run(
        [python, "-c", START, *flags],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout
    assert "holdfast: " in done.stdout
