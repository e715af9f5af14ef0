"""A plugin of pytest for runs in a copy: writes what became of each test, and refuses to test another Holdfast.

An exit code alone would not do: a run may end with 1 although no test failed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

REPORT = "MUTANTS_REPORT"
"""The environment variable that says where outcomes are written."""


class Outcomes:
    def __init__(self, path: Path) -> None:
        self._path, self._outcomes = path, dict[str, str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            worse = self._outcomes.get(report.nodeid) == "failed"
            self._outcomes[report.nodeid] = "failed" if worse else report.outcome

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(self._outcomes), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    import holdfast

    if not Path(holdfast.__file__).is_relative_to(Path.cwd() / "src"):
        raise pytest.UsageError(f"the copy's Holdfast is not the one imported: {holdfast.__file__}")
    if not hasattr(config, "workerinput") and REPORT in os.environ:  # workers of xdist report to the one that has none
        config.pluginmanager.register(Outcomes(Path(os.environ[REPORT])))
