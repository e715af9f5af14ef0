"""Dated facts about models: floors, TTLs, multipliers, limits, prices, and how many tokens a text has.

Every figure lives in a data file with a date and a source and can be overridden;
imports only `records` and `errors`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .calibration import Calibration as Calibration
    from .catalogue import Facts as Facts
    from .catalogue import default as default
    from .catalogue import model as model
    from .catalogue import use as use
    from .catalogue import using as using
    from .credentials import BEGINNINGS as BEGINNINGS
    from .credentials import MASK as MASK
    from .credentials import hidden as hidden
    from .credentials import holds_key as holds_key
    from .credentials import is_mixed as is_mixed
    from .credentials import key_spans as key_spans
    from .credentials import masked as masked
    from .credentials import open_end as open_end
    from .models import Cliff as Cliff
    from .models import Flags as Flags
    from .models import Knobs as Knobs
    from .models import ModelFacts as ModelFacts
    from .models import TokenLimits as TokenLimits
    from .models import Ttl as Ttl
    from .names import normalise as normalise
    from .pause_table import pauses as pauses
    from .prices import SERVICES as SERVICES
    from .prices import Rates as Rates
    from .prices import Tiers as Tiers
    from .prices import changes_between as changes_between
    from .prices import price as price
    from .prices import rates as rates
    from .prices import tiers as tiers
    from .tables import nearest as nearest
    from .tokens import IMAGE_TOKENS as IMAGE_TOKENS
    from .tokens import encode as encode
    from .tokens import estimate as estimate
    from .tokens import estimate_blocks as estimate_blocks
    from .tokens import estimate_json as estimate_json
    from .tokens import heuristic_tokens as heuristic_tokens
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".calibration": "Calibration",
            ".catalogue": "Facts default model use using",
            ".credentials": "BEGINNINGS MASK hidden holds_key is_mixed key_spans masked open_end",
            ".models": "Cliff Flags Knobs ModelFacts TokenLimits Ttl",
            ".names": "normalise",
            ".pause_table": "pauses",
            ".prices": "Rates SERVICES Tiers changes_between price rates tiers",
            ".tables": "nearest",
            ".tokens": "IMAGE_TOKENS encode estimate estimate_blocks estimate_json heuristic_tokens",
        },
    )
