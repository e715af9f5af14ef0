"""A gateway as a process of its own: started, measured, ended politely or not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


class Served:
    """A gateway as a process of its own."""

    def __init__(self, home: Path, environ: dict[str, str], port: int = 0) -> None:
        self.log = home / "gateway.log"
        # Measured by coverage it would be several times as slow, and one that is killed tells nothing of it.
        foreign = ("HOLDFAST_", "COVERAGE_PROCESS_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "serve", "--port", str(port)],
                cwd=home,
                env={**clean, "HOME": str(home), "HOLDFAST_HOME": str(home / "holdfast"), "NO_PROXY": "*", **environ},
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        line = self.process.stdout.readline().decode()
        assert line.startswith("listening on "), line + self.log.read_text()
        self.address = line.split()[-1]
        self.port = int(self.address.rpartition(":")[2])

    @property
    def rss(self) -> int:
        """Bytes in memory; 0 where the system does not tell."""
        status = Path(f"/proc/{self.process.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)

    def kill(self) -> None:
        """As if the power had gone: nothing is finished, nothing is said."""
        self.process.kill()
        self._over()

    def _over(self) -> None:
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(40)
        finally:
            self.kill()


@contextlib.contextmanager
def served(home: Path, environ: dict[str, str]) -> Iterator[Served]:
    gateway = Served(home, environ)
    try:
        yield gateway
    finally:
        gateway.stop()
