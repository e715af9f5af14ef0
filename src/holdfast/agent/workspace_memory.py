"""What the sessions of a workspace know for longer than one of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from holdfast.config.sections import Memory
from holdfast.memory import Knowledge, Vectors, embedder, project_of
from holdfast.notices import warn_once
from holdfast.store import Store

_logger = logging.getLogger(__name__)


class Memories:
    """Knowledge for sessions, which share the model that compares meanings."""

    def __init__(self, store: Store | None, tenant: str, workspace: Path, clock: Callable[[], float]) -> None:
        self._store, self._tenant, self._workspace, self._clock = store, tenant, workspace, clock
        self._vectors: dict[str, Vectors | None] = {}
        self._loading = threading.Lock()

    def of(self, memory: Memory, project: str = "") -> Knowledge | None:
        """What is known here, where there is a store. Reads files: not for an event loop."""
        if self._store is None:
            return None
        named = project or memory.project or str(project_of(self._workspace))
        vectors = self._compared(self._store, memory)
        return Knowledge(self._store, self._tenant, project=named, clock=self._clock, vectors=vectors)

    def _compared(self, store: Store, memory: Memory) -> Vectors | None:
        """Search by meaning, where a model is set and can be had."""
        place = memory.model_dir
        with self._loading:
            if place and place not in self._vectors:
                model = embedder(memory)
                if isinstance(model, str):
                    warn_once(_logger, "memory is searched by words alone: %s", model)
                self._vectors[place] = None if isinstance(model, str) else Vectors(store, self._tenant, model)
            return self._vectors.get(place)
