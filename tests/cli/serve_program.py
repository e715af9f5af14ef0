"""`holdfast serve` as a program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.gateway.gate import eventually


class ServeProgram:
    """The command as a program. What it prints goes into files."""

    def __init__(self, directory: Path, upstream: str, *arguments: str) -> None:
        self.home = directory / "home"
        self.printed = directory / "printed"
        environ = os.environ | {"HOLDFAST_HOME": str(self.home), "HOLDFAST_UPSTREAM_ANTHROPIC": upstream}
        command = [sys.executable, "-m", "holdfast", "serve", "--port", "0", *arguments]
        with self.printed.open("wb") as out, self.printed.with_suffix(".err").open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=environ)

    def __enter__(self) -> ServeProgram:
        eventually(lambda: re.match(r"listening on http://127\.0\.0\.1:\d+\n", self.out), 30)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def out(self) -> str:
        return self.printed.read_text()

    @property
    def address(self) -> str:
        return self.out.splitlines()[0].removeprefix("listening on ")

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """End it by a signal; its exit code and what it complained of."""
        self.process.send_signal(number)
        code = self.process.wait(30)
        return code, self.printed.with_suffix(".err").read_text()
