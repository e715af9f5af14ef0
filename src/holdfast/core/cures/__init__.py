"""The library of recognised faults: what broke a prefix in words people can act on, and what to do about it.

Each recogniser is a small function of a `Case`. They are asked from the specific to the general; where none recognises
anything, the cause has a plain cure. Knows nothing of how a break is found or kept.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .cure_case import IMPROVE, MANAGE, REPAIR, VALUES, Case, Cure, case
    from .library import FAULTS, NAMES, RECOGNISERS, cure_for, reset_cure
    from .skills import skill_owner
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".cure_case": "Case Cure IMPROVE MANAGE REPAIR VALUES case",
            ".library": "FAULTS NAMES RECOGNISERS cure_for reset_cure",
            ".skills": "skill_owner",
        },
    )
