"""The library of recognised faults: what broke a prefix in words people can act on, and what to do about it.

Each recogniser is a small function of a `Case`. They are asked from the specific to the general; where none recognises
anything, the cause has a plain cure. Knows nothing of how a break is found or kept.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .cure_case import ECONOMIC as ECONOMIC
    from .cure_case import IMPROVE as IMPROVE
    from .cure_case import MANAGE as MANAGE
    from .cure_case import REPAIR as REPAIR
    from .cure_case import VALUES as VALUES
    from .cure_case import Case as Case
    from .cure_case import Cure as Cure
    from .cure_case import case as case
    from .library import FAULTS as FAULTS
    from .library import NAMES as NAMES
    from .library import RECOGNISERS as RECOGNISERS
    from .library import cure_for as cure_for
    from .library import reset_cure as reset_cure
    from .skills import skill_owner as skill_owner
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".cure_case": "Case Cure ECONOMIC IMPROVE MANAGE REPAIR VALUES case",
            ".library": "FAULTS NAMES RECOGNISERS cure_for reset_cure",
            ".skills": "skill_owner",
        },
    )
