"""The library of recognised faults: what broke a prefix in words people can act on, and what to do about it.

Each recogniser is a small function of a `Case`. They are asked from the specific to the general; where none recognises
anything, the cause has a plain cure. Knows nothing of how a break is found or kept.
"""

from .cure_case import ECONOMIC, IMPROVE, MANAGE, REPAIR, VALUES, Case, Cure, case
from .library import FAULTS, NAMES, RECOGNISERS, cure_for, reset_cure
from .skills import owner as skill_owner

__all__ = [
    "ECONOMIC",
    "FAULTS",
    "IMPROVE",
    "MANAGE",
    "NAMES",
    "RECOGNISERS",
    "REPAIR",
    "VALUES",
    "Case",
    "Cure",
    "case",
    "cure_for",
    "reset_cure",
    "skill_owner",
]
