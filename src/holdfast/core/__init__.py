"""The core: what a lane has sent, what is believed alive, which markers to buy, which bytes to keep, what broke, why.

Pure decisions on values: prompts as a cache sees them, times passed in. Knows neither wire formats nor storage; texts
come in as values where a decision needs them. May import caches, config (its frozen values), facts, canonical, errors.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import account as account
    from . import experience as experience
    from . import gemini_contents as gemini_contents
    from . import keepalive as keepalive
    from . import ledger as ledger
    from . import planner as planner
    from .account import in_our_tokens as in_our_tokens
    from .breaks import DEFAULTS as DEFAULTS
    from .breaks import Expectation as Expectation
    from .breaks import Finding as Finding
    from .breaks import allowed as allowed
    from .breaks import cost_of as cost_of
    from .breaks import expect as expect
    from .breaks import judge as judge
    from .call import PlanRequest as PlanRequest
    from .call import Verdict as Verdict
    from .divergence import Comparison as Comparison
    from .divergence import Divergence as Divergence
    from .divergence import Place as Place
    from .divergence import as_bytes as as_bytes
    from .divergence import compare as compare
    from .divergence import place as place
    from .economics import edit_cost as edit_cost
    from .economics import requests_to_edit as requests_to_edit
    from .edits import FINAL as FINAL
    from .edits import EditRef as EditRef
    from .edits import Proposal as Proposal
    from .edits import propose as propose
    from .experience import Experience as Experience
    from .experience import decode as decode
    from .experience import encode as encode
    from .fence import believed as believed
    from .fence import fence_of as fence_of
    from .gemini_contents import AgentContents as AgentContents
    from .gemini_contents import Charge as Charge
    from .gemini_contents import Command as Command
    from .gemini_contents import ContentsRequest as ContentsRequest
    from .gemini_contents import Create as Create
    from .gemini_contents import Delete as Delete
    from .gemini_contents import Offer as Offer
    from .gemini_contents import Refresh as Refresh
    from .gemini_contents import Use as Use
    from .gemini_contents import identity as identity
    from .keepalive import IdleLane as IdleLane
    from .keepalive import Ping as Ping
    from .keepalive import Pings as Pings
    from .keepalive import Spending as Spending
    from .learned_merge import merged as merged
    from .ledger import Ledger as Ledger
    from .operating_context import SECTIONS as SECTIONS
    from .padding import NO_OUTLOOK as NO_OUTLOOK
    from .padding import PRELOADED as PRELOADED
    from .padding import Outlook as Outlook
    from .padding import PaddingRules as PaddingRules
    from .padding import SkillBody as SkillBody
    from .padding import pad as pad
    from .padding import skill_heading as skill_heading
    from .padding import split_sections as split_sections
    from .plan import DIGEST as DIGEST
    from .plan import Lookup as Lookup
    from .plan import Plan as Plan
    from .plan import Sent as Sent
    from .plan import columns as columns
    from .plan import head as head
    from .plan import is_result as is_result
    from .plan import kind_of as kind_of
    from .plan_variants import covered_by as covered_by
    from .plan_variants import marked as marked
    from .pool import Effect as Effect
    from .pool import Pool as Pool
    from .pool import effect as effect
    from .preflight import Preflight as Preflight
    from .preflight import calibrated as calibrated
    from .redact import diff as diff
    from .redact import holds_secret as holds_secret
    from .redact import mask as mask
    from .redact import without_secrets as without_secrets
    from .retention import RetentionChange as RetentionChange
    from .retention import marks_nothing as marks_nothing
    from .reuse_odds import Odds as Odds
    from .reuse_odds import odds as odds
    from .situation import Situation as Situation
    from .skill_texts import HEADING as HEADING
    from .skill_texts import HINT as HINT
    from .tenants import Tenant as Tenant
    from .text_changes import TextChange as TextChange
    from .text_changes import changes as changes
    from .volatile import masked as masked
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
            ".experience": "Experience decode encode",
            ".fence": "believed fence_of",
            ".gemini_contents": "Charge Command Create Delete AgentContents Offer Refresh Use ContentsRequest identity",
            ".keepalive": "IdleLane Ping Pings Spending",
            ".learned_merge": "merged",
            ".ledger": "Ledger",
            ".operating_context": "SECTIONS",
            ".padding": "NO_OUTLOOK Outlook PRELOADED PaddingRules SkillBody pad skill_heading split_sections",
            ".plan": "DIGEST Lookup Plan Sent columns head is_result kind_of",
            ".plan_variants": "covered_by marked",
            ".pool": "Effect Pool effect",
            ".preflight": "Preflight calibrated",
            ".redact": "diff holds_secret mask without_secrets",
            ".retention": "RetentionChange marks_nothing",
            ".reuse_odds": "Odds odds",
            ".situation": "Situation",
            ".skill_texts": "HEADING HINT",
            ".tenants": "Tenant",
            ".text_changes": "TextChange changes",
            ".volatile": "masked",
        },
    )
