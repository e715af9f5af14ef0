"""Provider calls as frozen values: blocks, messages, requests, usage, capabilities, and how far two are equal.

Knows no provider, no bytes on a wire, no clock and no storage; imports nothing of ours.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .blocks import Block as Block
    from .blocks import Document as Document
    from .blocks import Extra as Extra
    from .blocks import Image as Image
    from .blocks import Message as Message
    from .blocks import Opaque as Opaque
    from .blocks import RedactedThinking as RedactedThinking
    from .blocks import Role as Role
    from .blocks import Text as Text
    from .blocks import Thinking as Thinking
    from .blocks import ToolDefinition as ToolDefinition
    from .blocks import ToolResult as ToolResult
    from .blocks import ToolUse as ToolUse
    from .blocks import kind_of as kind_of
    from .capabilities import Capabilities as Capabilities
    from .causes import BREAK_CAUSES as BREAK_CAUSES
    from .causes import CAUSES as CAUSES
    from .causes import CHANGES as CHANGES
    from .causes import HEAD_CHANGES as HEAD_CHANGES
    from .causes import MISSED as MISSED
    from .causes import RESET_REASONS as RESET_REASONS
    from .causes import BreakCause as BreakCause
    from .causes import Cure as Cure
    from .causes import Part as Part
    from .causes import ResetReason as ResetReason
    from .causes import expiry as expiry
    from .common_prefix import common_head as common_head
    from .jsontext import NotJson as NotJson
    from .jsontext import canonical_json as canonical_json
    from .jsontext import decode_string as decode_string
    from .jsontext import encode_string as encode_string
    from .jsontext import same_json as same_json
    from .request import Request as Request
    from .request import Violation as Violation
    from .request import validate as validate
    from .token_usage import UNSPLIT as UNSPLIT
    from .token_usage import Usage as Usage
    from .token_usage import usage as usage
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".blocks": (
                "Block Document Extra Image Message Opaque RedactedThinking Role Text Thinking "
                "ToolDefinition ToolResult ToolUse kind_of"
            ),
            ".capabilities": "Capabilities",
            ".causes": (
                "BREAK_CAUSES BreakCause CAUSES CHANGES Cure HEAD_CHANGES MISSED Part RESET_REASONS ResetReason expiry"
            ),
            ".common_prefix": "common_head",
            ".jsontext": "NotJson canonical_json decode_string encode_string same_json",
            ".request": "Request Violation validate",
            ".token_usage": "UNSPLIT Usage usage",
        },
    )
