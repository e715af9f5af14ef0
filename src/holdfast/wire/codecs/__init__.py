"""Canonical values to and from each dialect's JSON. No offsets, no markers to keep: those belong to the dialects."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .gemini import MADE_ID
    from .openai_chat import MARKER_KEYS
    from .openai_responses import LATE_TOOLS, decode_tool
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".gemini": "MADE_ID",
            ".openai_chat": "MARKER_KEYS",
            ".openai_responses": "LATE_TOOLS decode_tool",
        },
    )
