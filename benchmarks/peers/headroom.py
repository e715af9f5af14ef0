"""Headroom's proxy (PyPI `headroom-ai`): compresses prompts on their way; one worker, its defaults, no network.

Its cache of answers and its rate limit are off: the one would answer for the provider, the other is not speed. The
model it compresses prose with is a download, so without a network it does only what needs none.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gateway_servers import ROOT, Server, free_port, running_program, version_of

NAME = "Headroom"
FOLDER = ROOT / ".peers" / "headroom"
PROGRAM = FOLDER / "bin" / "headroom"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HEADROOM_TELEMETRY": "off",
}
OPTIONS = ("--no-cache", "--no-rate-limit", "--no-telemetry", "--no-http2")


@contextlib.contextmanager
def running(provider: Server, core: int | None) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        port = free_port()
        address = f"http://127.0.0.1:{provider.port}"
        command = [str(PROGRAM), "proxy", "--port", str(port), "--anthropic-api-url", address, *OPTIONS]
        env = {**ENVIRONMENT, "HOME": folder}
        with running_program(NAME, command, core, env=env, cwd=Path(folder), port=port) as server:
            yield server


def version() -> str:
    return version_of(FOLDER, "headroom_ai")
