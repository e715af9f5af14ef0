"""Provider calls as frozen values: blocks, messages, requests, usage, capabilities, and how far two are equal.

Knows no provider, no bytes on a wire, no clock and no storage; imports nothing of ours.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .blocks import (
        Block,
        Document,
        Extra,
        Image,
        Message,
        Opaque,
        RedactedThinking,
        Role,
        Text,
        Thinking,
        ToolDefinition,
        ToolResult,
        ToolUse,
        kind_of,
    )
    from .causes import (
        BREAK_CAUSES,
        CAUSES,
        CHANGES,
        HEAD_CHANGES,
        MISSED,
        RESET_REASONS,
        BreakCause,
        Cure,
        Part,
        ResetReason,
        expiry,
    )
    from .common_prefix import common_head
    from .jsontext import NotJson, canonical_json, decode_string, encode_string
    from .request import Capabilities, Request, Violation, validate
    from .token_usage import UNSPLIT, Usage, usage
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".blocks": (
                "Block Document Extra Image Message Opaque RedactedThinking Role Text Thinking "
                "ToolDefinition ToolResult ToolUse kind_of"
            ),
            ".causes": (
                "BREAK_CAUSES BreakCause CAUSES CHANGES Cure HEAD_CHANGES MISSED Part RESET_REASONS ResetReason expiry"
            ),
            ".common_prefix": "common_head",
            ".jsontext": "NotJson canonical_json decode_string encode_string",
            ".request": "Capabilities Request Violation validate",
            ".token_usage": "UNSPLIT Usage usage",
        },
    )
