"""One simulated provider for all sessions of a test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doors.doors import provided


@pytest.fixture(scope="session", autouse=True)
def provider() -> Iterator[None]:
    with provided():
        yield
