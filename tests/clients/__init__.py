"""Real clients against the served simulator: the providers' SDKs and command-line agents, over real HTTP."""

import pytest

pytest.register_assert_rewrite("tests.clients.comparison", "tests.clients.programs", "tests.clients.sessions")
