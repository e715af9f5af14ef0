"""Provider calls as frozen values: blocks, messages, requests, usage, capabilities, and how far two are equal.

Knows no provider, no bytes on a wire, no clock and no storage; imports nothing of ours.
"""

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
from .capabilities import Capabilities
from .common_prefix import common_head
from .jsontext import NotJson, canonical_json, decode_string, encode_string, same_json
from .request import Request, Violation, validate
from .token_usage import UNSPLIT, Usage, usage

__all__ = [
    "UNSPLIT",
    "Block",
    "Capabilities",
    "Document",
    "Extra",
    "Image",
    "Message",
    "NotJson",
    "Opaque",
    "RedactedThinking",
    "Request",
    "Role",
    "Text",
    "Thinking",
    "ToolDefinition",
    "ToolResult",
    "ToolUse",
    "Usage",
    "Violation",
    "canonical_json",
    "common_head",
    "decode_string",
    "encode_string",
    "kind_of",
    "same_json",
    "usage",
    "validate",
]
