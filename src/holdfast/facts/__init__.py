"""Dated facts about models: floors, TTLs, multipliers, limits, prices, and how many tokens a text has.

Every figure lives in a data file with a date and a source and can be overridden;
imports only `canonical` and `errors`.
"""

from holdfast.facts.calibration import Calibration
from holdfast.facts.catalogue import Facts, default, model, use
from holdfast.facts.models import Cliff, Flags, Knobs, Limits, ModelFacts, Ttl
from holdfast.facts.prices import SERVICES, Rates, Tiers, changes_between, price, rates, tiers
from holdfast.facts.tokens import IMAGE_TOKENS, encode, estimate, estimate_blocks, estimate_json, heuristic_tokens

__all__ = [
    "IMAGE_TOKENS",
    "SERVICES",
    "Calibration",
    "Cliff",
    "Facts",
    "Flags",
    "Knobs",
    "Limits",
    "ModelFacts",
    "Rates",
    "Tiers",
    "Ttl",
    "changes_between",
    "default",
    "encode",
    "estimate",
    "estimate_blocks",
    "estimate_json",
    "heuristic_tokens",
    "model",
    "price",
    "rates",
    "tiers",
    "use",
]
