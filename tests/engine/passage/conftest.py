"""A door with a store, closed in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.passage.door import Door


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Callable[..., Door]]:
    """Makes doors with a store."""
    made: list[Door] = []

    def make(*args: Any, **more: Any) -> Door:
        made.append(Door(*args, path=tmp_path / f"{len(made)}.db", **more))
        return made[-1]

    yield make
    for door in made:
        door.close()


@pytest.fixture
def door(doors: Callable[..., Door]) -> Door:
    return doors()
