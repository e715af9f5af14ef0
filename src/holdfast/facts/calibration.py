"""What a model's tokenizer makes of our estimates, learned from the usage its provider reports.

A frozen value: the same observations in the same order give the same calibration, wherever they are replayed.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

PRIOR_TOKENS = 1_000
"""The weight, in tokens, of the assumption that the estimate is right: a tiny request changes little."""

MEMORY_TOKENS = 4_000_000
"""Above this the past is halved, so that a model whose tokenizer changed is relearned."""

ABSURD = 4
"""Reports this many times above or below the estimate are mistakes (images, another model)."""


class Observed(Struct, frozen=True):
    """Tokens estimated for a model and tokens its provider reported for the same prompts."""

    model: str
    estimated: int
    reported: int


class Calibration(Struct, frozen=True):
    """One weighted ratio per model, sorted by model."""

    models: tuple[Observed, ...] = ()

    def observe(self, model: str, estimated: int, reported: int) -> Calibration:
        """This calibration with one more request in it; an absurd pair changes nothing."""
        if estimated <= 0 or not estimated <= reported * ABSURD <= estimated * ABSURD * ABSURD:
            return self
        old = self._of(model)
        estimated += old.estimated
        reported += old.reported
        while estimated > MEMORY_TOKENS:
            estimated //= 2
            reported //= 2
        new = Observed(model, estimated, reported)
        if len(self.models) == 1 and old is self.models[0]:  # as in most
            return Calibration((new,))
        others = [known for known in self.models if known.model != model]
        ordered = sorted((*others, new), key=lambda known: known.model)
        return Calibration(tuple(ordered))

    def tokens(self, model: str, estimated: int) -> int:
        """What the provider will probably report for an estimate; the estimate itself for an unseen model."""
        return self.counter(model)(estimated)

    def counter(self, model: str) -> Callable[[int], int]:
        """The same for many estimates of one model."""
        ratio = self._of(model)
        reported, weight = (ratio.reported + PRIOR_TOKENS) * 2, ratio.estimated + PRIOR_TOKENS
        return lambda estimated: (estimated * reported + weight) // (2 * weight)

    def _of(self, model: str) -> Observed:
        for each in self.models:
            if each.model == model:
                return each
        return Observed(model, 0, 0)
