"""One file per dialect: bytes to canonical values and back, with every untouched byte kept as the client sent it.

Knows how providers spell things and nothing of lanes or storage; imports `records`, `facts` and, for what a prompt is
to a cache, `caches`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import cache_parameters, rewrite, scan
    from .answers import Answer, AnswerReader, Unreachable
    from .anthropic import ERROR_TYPES
    from .block_reader import digest_of
    from .body import BlockSpan, Body, Marker, Splice, Ttl, Unreadable, is_border
    from .cache_control import ENDINGS, MARKERS
    from .dialects import COUNTING, DIALECTS, Dialect, dialect_of, path_of
    from .errors import WireError, is_too_long
    from .gemini import Gemini
    from .injection import Injected, UserText, continued_id, inject, last_words, newest_user_text
    from .key_order import in_order, order_of
    from .openrouter import OpenRouter
    from .prompts import PromptReader, Reading
    from .raw_json import arr, array_of, canon, int_of, obj, object_at, object_of, string_of, wire_model
    from .rewrite import text_span, unordered
    from .stream import LONGEST_LINE, StreamReport, Tap
    from .tool_references import references
    from .usage import LARGEST, Counts, anthropic_usage, count, counts_of, gemini_usage, number, openai_usage
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "cache_parameters rewrite scan",
            ".answers": "Answer AnswerReader Unreachable",
            ".anthropic": "ERROR_TYPES",
            ".block_reader": "digest_of",
            ".body": "BlockSpan Body Marker Splice Ttl Unreadable is_border",
            ".cache_control": "ENDINGS MARKERS",
            ".dialects": "COUNTING DIALECTS Dialect dialect_of path_of",
            ".errors": "WireError is_too_long",
            ".gemini": "Gemini",
            ".injection": "Injected UserText continued_id inject last_words newest_user_text",
            ".key_order": "in_order order_of",
            ".openrouter": "OpenRouter",
            ".prompts": "PromptReader Reading",
            ".raw_json": "arr array_of canon int_of obj object_at object_of string_of wire_model",
            ".rewrite": "text_span unordered",
            ".stream": "LONGEST_LINE StreamReport Tap",
            ".tool_references": "references",
            ".usage": "Counts LARGEST anthropic_usage count counts_of gemini_usage number openai_usage",
        },
    )
