"""What turns texts into vectors, where that can be had: with the extra `embeddings` and a model on this machine.

No model comes with Holdfast, and none is ever fetched. `memory.model_dir` names a directory with the files that
sentence-transformers/all-MiniLM-L6-v2 is published with. Without it search goes by words alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.config.sections import MemorySettings
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

THREADS = "1"
"""More of them wait for each other: on a machine with two busy cores two took 320 to 450 ms for a query for which one
took 33 to 52, and on idle cores one takes 12 where two take 8."""
_THREAD_SETTINGS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Embedder(Protocol):
    """Maps texts to unit vectors that are close where the meanings are similar."""

    @property
    def name(self) -> str:
        """Identifies the model and its settings: vectors of different names cannot be compared."""
        ...

    @property
    def floor(self) -> float:
        """The cosine below which two texts are unrelated."""
        ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return a float32 row for each text."""
        ...


def embedder(settings: MemorySettings) -> Embedder | str:
    """The model that the settings name; where there is none to be had, why search goes by words alone, in one sentence.
    Loaded when it is first used: make one and share it, it holds some 100 MB."""
    if not settings.model_dir:
        return "no model is set (memory.model_dir)"
    try:
        with _few_threads():
            from .minilm import MiniLM
    except ModuleNotFoundError as problem:
        return f"{problem.name} is not installed; install holdfast[embeddings]"
    try:
        return MiniLM(Path(settings.model_dir))
    except HoldfastError as problem:
        return str(problem)


@contextmanager
def _few_threads() -> Iterator[None]:
    """Limit the threads of numpy's linear algebra, which takes every core by default and reads its settings once, when
    it is loaded. The user's own settings stay, and so do those of a numpy loaded before. The environment is restored,
    since commands that we start would inherit it."""
    ours = [name for name in _THREAD_SETTINGS if name not in os.environ]
    os.environ.update(dict.fromkeys(ours, THREADS))
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
