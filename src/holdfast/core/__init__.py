"""The core: what a lane has sent, what is believed alive, which markers to buy, which bytes to keep, what broke, why.

Pure decisions on values: prompts as a cache sees them, times passed in. Knows neither wire formats nor storage; texts
come in as values where a decision needs them. May import caches, config (its frozen values), facts, canonical, errors.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import account, experience, gemini_contents, keepalive, ledger, planner
    from .account import in_our_tokens
    from .breaks import DEFAULTS, Expectation, Finding, allowed, cost_of, expect, judge
    from .call import PlanRequest, Verdict
    from .divergence import Comparison, Divergence, Place, as_bytes, compare, place
    from .economics import edit_cost, requests_to_edit
    from .edits import FINAL, EditRef, Proposal, propose
    from .experience import Experience, decode, encode, merged
    from .fence import believed, fence_of
    from .gemini_contents import (
        AgentContents,
        Charge,
        Command,
        ContentsRequest,
        Create,
        Delete,
        Offer,
        Refresh,
        Use,
        identity,
    )
    from .keepalive import IdleLane, Ping, Pings, Spending
    from .ledger import Ledger
    from .operating_context import SECTIONS
    from .padding import NO_OUTLOOK, PRELOADED, Outlook, PaddingRules, SkillBody, pad, skill_heading, split_sections
    from .plan import DIGEST, Plan, Sent, columns, head, is_result, kind_of
    from .plan_variants import covered_by, marked
    from .pool import Effect, Pool, effect
    from .preflight import Preflight, calibrated
    from .redact import diff, holds_secret, mask, without_secrets
    from .retention import marks_nothing
    from .reuse_odds import Odds, odds
    from .situation import Situation
    from .skill_texts import HEADING, HINT
    from .tenants import Tenant
    from .text_changes import TextChange, changes
    from .volatile import masked
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "account experience gemini_contents keepalive ledger planner",
            ".account": "in_our_tokens",
            ".breaks": "DEFAULTS Expectation Finding allowed cost_of expect judge",
            ".call": "PlanRequest Verdict",
            ".divergence": "Comparison Divergence Place as_bytes compare place",
            ".economics": "edit_cost requests_to_edit",
            ".edits": "EditRef FINAL Proposal propose",
            ".experience": "Experience decode encode merged",
            ".fence": "believed fence_of",
            ".gemini_contents": "AgentContents Charge Command ContentsRequest Create Delete Offer Refresh Use identity",
            ".keepalive": "IdleLane Ping Pings Spending",
            ".ledger": "Ledger",
            ".operating_context": "SECTIONS",
            ".padding": "NO_OUTLOOK Outlook PRELOADED PaddingRules SkillBody pad skill_heading split_sections",
            ".plan": "DIGEST Plan Sent columns head is_result kind_of",
            ".plan_variants": "covered_by marked",
            ".pool": "Effect Pool effect",
            ".preflight": "Preflight calibrated",
            ".redact": "diff holds_secret mask without_secrets",
            ".retention": "marks_nothing",
            ".reuse_odds": "Odds odds",
            ".situation": "Situation",
            ".skill_texts": "HEADING HINT",
            ".tenants": "Tenant",
            ".text_changes": "TextChange changes",
            ".volatile": "masked",
        },
    )
