"""The smoke scripts as a user runs them, and a provider that fails them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

from holdfast.simulator import Exchange, HttpRequest, Simulator

SCRIPTS = Path(__file__).parent.parent / "scripts"
KEY = "sk-ant-of-the-smoke-test"


def run(script: str, *arguments: str, address: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run one, with a key where there is an address to send it to."""
    dropped = ("_proxy", "api_key", "base_url")
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith(dropped)}
    asked = {} if address is None else {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": KEY}
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), *arguments],
        env=kept | asked,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert KEY not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "unclosed" not in done.stderr.lower()
    return done


def spent(done: subprocess.CompletedProcess[str]) -> Decimal:
    found = re.search(r"^\$(\d\.\d{4});", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return Decimal(found[1])


class Forgetful(Simulator):
    """A provider whose cache forgets everything before each request."""

    def begin(self, call: HttpRequest) -> Exchange:
        self.reset()
        return super().begin(call)
