"""How many tokens memory may take of a window: the stable block, and the context memory beside it.

A budget that follows a moving number changes what is chosen, and with it bytes that were sent, on every turn. So the
window is rounded down, by a fifth at most, before anything is computed from it, and what is computed once more: a limit
that is a little different gives the same budgets, and the same budgets give the same texts.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.config.sections import Memory

STEP = 256
"""Budgets are multiples of this, except in windows where one step would be an eighth or more."""
_LEAST_PART = 8
"""In a small window, the least a budget may be is one part in so many: 2% of 4,000 tokens hold no entry at all."""
_STEPS = 4
"""Steps from one power of two to the next."""


class Budgets(Struct, frozen=True, kw_only=True):
    """The budgets of one model and one configuration, in tokens. `usable` is the window after rounding."""

    usable: int
    stable: int
    context_share: float
    whole: float
    """Stable and context memory together, as a share."""
    floor: float
    """The part of the whole that context memory always has."""

    def context(self, stable_used: int) -> int:
        """What context memory may take beside a stable block of this size.

        Its own share, as far as the stable block has left it of the whole; but never less than the floor: many
        preferences must not starve what is needed for the work at hand (E24). The block's size is rounded up to a step
        first, so that a word more or less in it does not matter.
        """
        if self.context_share <= 0:
            return 0
        left = self.whole * self.usable - -(-max(stable_used, 0) // STEP) * STEP
        return _budget(
            max(min(self.context_share * self.usable, left), self.floor * self.whole * self.usable), self.usable
        )


def budgets(settings: Memory, *, context_limit: int, output_limit: int) -> Budgets:
    """The budgets for a window of `context_limit` tokens, of which an answer may take `output_limit`."""
    usable = stepped(usable_window(context_limit, output_limit))
    stable, context = max(settings.stable_budget, 0.0), max(settings.context_budget, 0.0)
    return Budgets(
        usable=usable,
        stable=_budget(stable * usable, usable) if stable else 0,
        context_share=context,
        whole=stable + context,
        floor=max(settings.context_floor, 0.0),
    )


def usable_window(context_limit: int, output_limit: int) -> int:
    """The window without what is kept free for an answer, which is half of it at most: some models may answer with as
    much as they can read."""
    limit = max(context_limit, 0)
    return limit - min(max(output_limit, 0), limit // 2)


def stepped(tokens: int) -> int:
    """The number rounded down to a step: four of them from one power of two to the next."""
    if tokens < _STEPS:
        return max(tokens, 0)
    unit = 1 << (tokens.bit_length() - _STEPS.bit_length())
    return tokens // unit * unit


def _budget(tokens: float, usable: int) -> int:
    least = min(STEP, usable // _LEAST_PART)
    return max(int(tokens) // STEP * STEP, least)
