"""What the two OpenAI dialects share: data URLs, tool arguments, system segments."""

from __future__ import annotations

import re

from holdfast.records import (
    Block,
    Document,
    Image,
    NotJson,
    Request,
    Text,
    canonical_json,
    decode_string,
    encode_string,
)

from ..raw_json import as_blocks, string_of, texts_of

_data_url = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL).fullmatch


def image_of(url: str) -> Image:
    match = _data_url(url)
    return Image(url=url) if match is None else Image(media_type=match[1], data=match[2])


def document_of(data: str) -> Document | None:
    """A file from its data URL; plain text in base64 is no canonical document and stays as it was sent."""
    match = _data_url(data)
    return None if match is None or match[1] == "text/plain" else Document(media_type=match[1], data=match[2])


def url_of(block: Image | Document) -> str:
    if block.url is not None:
        return block.url
    return f"data:{block.media_type or 'application/octet-stream'};base64,{block.data or ''}"


def input_of(arguments: bytes) -> bytes:
    """A tool's input from the string literal that carries it; arguments that are not JSON stay a JSON string.

    Arguments that are a JSON string themselves stay one too, with their quotes: bare they would be another text.
    """
    text = string_of(arguments) or ""
    try:
        value = canonical_json(text.encode("utf-8", "surrogatepass"))
    except NotJson:
        return encode_string(text)
    return encode_string(text) if value[:1] == b'"' else value


def arguments_of(input: bytes) -> bytes:
    """The string literal that carries a tool's input."""
    if input[:1] == b'"':
        return encode_string(decode_string(input))
    return encode_string(input.decode("utf-8"))


def plain_system(request: Request) -> str | None:
    """The system prompt as one string, volatile text at its end; None if a segment is more than plain text."""
    blocks = (*as_blocks(request.system_prompt), *as_blocks(request.system_prompt_volatile))
    if any(not isinstance(block, Text) or block.extra for block in blocks):
        return None
    if any(
        segment and not isinstance(segment, str) for segment in (request.system_prompt, request.system_prompt_volatile)
    ):
        return None
    return texts_of(blocks)


def document_text(block: Document) -> str | None:
    """What stands for a document that cannot be sent as a file: its own text, or where it is."""
    if block.url is not None:
        return block.url
    return block.data if block.media_type == "text/plain" else None


def splits(content: tuple[Block, ...]) -> tuple[list[Block], list[Block]]:
    """A tool result's blocks: what a tool message can hold, and the pictures and files that it cannot."""
    pictures: list[Block] = [block for block in content if isinstance(block, Image | Document)]
    return [block for block in content if not isinstance(block, Image | Document)], pictures
