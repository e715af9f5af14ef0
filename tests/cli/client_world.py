"""A provider on this machine, and the environment of a user whose Holdfast forwards to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from holdfast.simulator.provider import Simulator
from tests.clients.programs import TIMEOUT


class World(NamedTuple):
    simulator: Simulator
    address: str
    environment: dict[str, str]
    root: Path

    def run(self, *arguments: str, input: str = "Hello.", **more: str) -> subprocess.CompletedProcess[str]:
        """`holdfast run` with its options and the client."""
        return subprocess.run(
            [sys.executable, "-m", "holdfast", "run", *arguments],
            cwd=self.root,
            env=self.environment | more,
            input=input,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
