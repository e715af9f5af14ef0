"""Makes `tests` importable from every test, and generated examples the same on every CI run.

Elsewhere examples are new each time: that is where they find something, and where it can be looked into at once.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")
