"""Pictures that every provider takes: of a kind that models can see, and not too large."""

from __future__ import annotations

MOST_BYTES = 3_750_000
"""Five megabytes in base64, which is the least that providers allow for one image."""

_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def image_type(head: bytes) -> str | None:
    """The media type by what a picture begins with: a provider that is told another than the true one refuses it."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
