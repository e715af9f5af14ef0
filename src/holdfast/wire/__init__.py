"""One file per dialect: bytes to canonical values and back, with every untouched byte kept as the client sent it.

Knows how providers spell things and nothing of lanes or storage; imports `canonical`, `facts` and, for what a prompt is
to a cache, `caches`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import cache_parameters as cache_parameters
    from . import rewrite as rewrite
    from . import scan as scan
    from .answers import Answer as Answer
    from .answers import AnswerReader as AnswerReader
    from .answers import Unreachable as Unreachable
    from .answers import answer_reader as answer_reader
    from .anthropic import ERROR_TYPES as ERROR_TYPES
    from .block_reader import digest_of as digest_of
    from .body import BlockSpan as BlockSpan
    from .body import Body as Body
    from .body import Marker as Marker
    from .body import Splice as Splice
    from .body import Ttl as Ttl
    from .body import Unreadable as Unreadable
    from .body import is_border as is_border
    from .cache_control import ENDINGS as ENDINGS
    from .cache_control import MARKERS as MARKERS
    from .dialects import COUNTING as COUNTING
    from .dialects import DIALECTS as DIALECTS
    from .dialects import Dialect as Dialect
    from .dialects import dialect_of as dialect_of
    from .dialects import path_of as path_of
    from .gemini import Gemini as Gemini
    from .injection import Injected as Injected
    from .injection import UserText as UserText
    from .injection import continued as continued
    from .injection import injected as injected
    from .injection import said as said
    from .injection import words as words
    from .key_order import in_order as in_order
    from .key_order import order_of as order_of
    from .lengths import TOO_LONG as TOO_LONG
    from .lengths import is_too_long as is_too_long
    from .openrouter import OpenRouter as OpenRouter
    from .parse import WireError as WireError
    from .prompts import PromptReader as PromptReader
    from .prompts import Reading as Reading
    from .raw_json import arr as arr
    from .raw_json import array_of as array_of
    from .raw_json import canon as canon
    from .raw_json import int_of as int_of
    from .raw_json import obj as obj
    from .raw_json import object_at as object_at
    from .raw_json import object_of as object_of
    from .raw_json import string_of as string_of
    from .raw_json import wire_model as wire_model
    from .rewrite import text_span as text_span
    from .rewrite import unordered as unordered
    from .stream import LONGEST_LINE as LONGEST_LINE
    from .stream import StreamReport as StreamReport
    from .stream import Tap as Tap
    from .tool_references import references as references
    from .usage import LARGEST as LARGEST
    from .usage import Counts as Counts
    from .usage import anthropic_usage as anthropic_usage
    from .usage import count as count
    from .usage import counts_of as counts_of
    from .usage import gemini_usage as gemini_usage
    from .usage import number as number
    from .usage import openai_usage as openai_usage
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "cache_parameters rewrite scan",
            ".answers": "Answer AnswerReader Unreachable answer_reader",
            ".anthropic": "ERROR_TYPES",
            ".block_reader": "digest_of",
            ".body": "BlockSpan Body Marker Splice Ttl Unreadable is_border",
            ".cache_control": "ENDINGS MARKERS",
            ".dialects": "COUNTING DIALECTS Dialect dialect_of path_of",
            ".gemini": "Gemini",
            ".injection": "Injected UserText continued injected said words",
            ".key_order": "in_order order_of",
            ".lengths": "TOO_LONG is_too_long",
            ".openrouter": "OpenRouter",
            ".parse": "WireError",
            ".prompts": "PromptReader Reading",
            ".raw_json": "arr array_of canon int_of obj object_at object_of string_of wire_model",
            ".rewrite": "text_span unordered",
            ".stream": "LONGEST_LINE StreamReport Tap",
            ".tool_references": "references",
            ".usage": "Counts LARGEST anthropic_usage count counts_of gemini_usage number openai_usage",
        },
    )
