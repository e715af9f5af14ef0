"""Results that are too long for a conversation: a file takes the whole, a reference with head and tail its place.

Done once, before a result is first sent, so that no sent bytes change. The reference is a function of the result, its
call and the session's directory: no clock, no chance. Text stands in the file byte for byte, or line by line in a JSON
document (`tools.offload.format`). A result with images or documents goes out as a whole, too: each of them is a file of
its own, decoded, and the reference names them all.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.config.sections import OffloadSettings
from holdfast.records import Block, Document, Image, Opaque, Text, kind_of

from .contract import MCP_PREFIX, SKILL_LOAD, Tool
from .safe_files import write_private
from .text_limits import mend, shown

PREFIX = "[Tool result offloaded to disk: "
OFFLOADS = "offload"
"""The directory below HOLDFAST_HOME."""
READ_FILE = "read_file"

_NAMED = 16  # files that a reference names one by one; the others stand in the text file at their places
_FORGED = 100_000  # no reference of ours is that long: what begins like one is a tool's own text
_EXTENSIONS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "application/pdf": ".pdf",
    "application/json": ".json",
    "text/plain": ".txt",
    "text/html": ".html",
    "text/csv": ".csv",
    "text/markdown": ".md",
}
_READABLE = tuple(ending for ending in _EXTENSIONS.values() if ending != ".pdf")
_stored = re.compile(r"([^/\n]+/[\w.-]+)\]")
_BEFORE_LINES = 7
"""Lines of a JSON document before those of the text."""
_AS_JSON = (
    f" The first one is JSON: line n of the text is line n + {_BEFORE_LINES} of the file, as a string of `lines`."
)
_unsafe = re.compile(r"[^A-Za-z0-9_]+")
logger = logging.getLogger(__name__)


class Offloaded(Struct, frozen=True, kw_only=True):
    """Where a result went: the file that the reference names first, and all of its files."""

    path: str
    characters: int
    files: tuple[str, ...] = ()


class _Medium(Struct, frozen=True):
    name: str
    kind: str
    data: bytes


class _Layout(Struct, frozen=True):
    """The files of a result. `text` is the content of the first one if that is text."""

    files: dict[str, bytes]
    text: str
    media: tuple[_Medium, ...]


def is_reference(text: str) -> bool:
    """Return whether a text refers to an offloaded result. It is not offloaded or masked again."""
    return text.startswith(PREFIX)


def characters(blocks: Iterable[Block]) -> int:
    """What a result counts: its text, and images and documents as the characters of their base64."""
    return sum(len(_data(block) or _as_text(block)) for block in blocks)


def directory_of(home: Path, session: str, tenant: str = "") -> Path:
    """The directory of a session's offloaded results. Names may hold anything; no two sessions share a directory."""
    return home / OFFLOADS / f"{_safe(session)}-{_digest(tenant, session)}"


class Offloader:
    """Puts the long results of one session into its directory, which is made with the first of them."""

    def __init__(self, settings: OffloadSettings, directory: Path, *, session: str = "") -> None:
        self.settings, self.session = settings, session
        self.directory = directory.absolute()
        self._warned = False

    def limit(self, tool: Tool) -> int:
        """Return how many characters of a tool's result stay inline: the setting for its name, the one for every tool,
        the tool's own limit, or that of its kind; the hard cap limits them all."""
        settings = self.settings
        kind = settings.inline_chars
        if tool.name == READ_FILE:
            kind = settings.read_chars
        elif tool.name.startswith(MCP_PREFIX):
            kind = settings.mcp_chars
        choices = (settings.per_tool.get(tool.name), settings.max_result_chars, tool.inline_chars, kind)
        return max(0, min(next(choice for choice in choices if choice is not None), settings.hard_cap_chars))

    def store(
        self, tool: Tool, tool_use_id: str, blocks: tuple[Block, ...], *, exempt: bool = False
    ) -> tuple[tuple[Block, ...], Offloaded | None]:
        """Return the result for the conversation, and where the whole result is if it was offloaded.

        The same blocks are returned if they are within the limit, `exempt` (read from an offloaded result), or a
        reference already. Never raises: what cannot be written stays, as far as the hard cap allows.
        """
        if exempt or tool.exempt or tool.name == SKILL_LOAD:
            return blocks, None
        total, limit = characters(blocks), self.limit(tool)
        if total <= limit or self._is_stored(blocks, total):
            return blocks, None
        try:
            str(self.directory).encode("utf-8")  # a path that no text can name could not be read again
            layout = _lay_out(tool_use_id, blocks)
            if self.settings.format == "json":
                layout = self._as_json(tool.name, tool_use_id, total, layout)
            write_private(self.directory, layout.files)
        except (OSError, ValueError) as problem:
            return self._cut(tool, blocks, total, problem), None
        files = tuple(str(self.directory / name) for name in layout.files)
        reference = self._reference(shown(tool.name), total, files, layout, limit)
        return (Text(reference),), Offloaded(path=files[0], characters=total, files=files)

    def _as_json(self, tool: str, tool_use_id: str, total: int, layout: _Layout) -> _Layout:
        """The same with a JSON document in the place of the text file. Each line of the text is a line of it, so that
        a part of it can be read and searched like a part of the text."""
        names = list(layout.files)
        media = [medium.name for medium in layout.media]
        about = {
            "tool": tool,
            "tool_use_id": tool_use_id,
            "session": self.session,
            "characters": total,
            "files": media,
        }
        stem = names[0].removesuffix(".txt") if names[0] not in media else names[0].rpartition("-")[0]
        head = "".join(f"{_json(name)}: {_json(value)},\n" for name, value in about.items())
        lines = ",\n".join(_json(line) for line in layout.text.split("\n")) if layout.text else ""
        document = f'{{\n{head}"lines": [\n{lines}\n]\n}}\n'
        files = {f"{stem}.json": _encoded(document)[1], **{name: layout.files[name] for name in media}}
        return _Layout(files, layout.text, layout.media)

    def _is_stored(self, blocks: tuple[Block, ...], total: int) -> bool:
        """Whether this is a reference. A tool could write one itself to keep a long text inline, but hardly one that
        names a file of ours."""
        first = blocks[0]
        if not isinstance(first, Text) or not is_reference(first.text):
            return False
        if total > max(_FORGED, self.settings.hard_cap_chars):
            return False
        beside = f" characters, {self.directory.parent}/"
        named = _stored.match(first.text, first.text.find(beside) + len(beside)) if beside in first.text else None
        try:
            return named is not None and (self.directory.parent / named[1]).is_file()
        except (OSError, ValueError):
            return False

    def _reference(self, tool: str, total: int, files: tuple[str, ...], layout: _Layout, limit: int) -> str:
        lines = [f"{PREFIX}{tool}, {total} characters, {files[0]}]"]
        further = [medium for medium in layout.media if medium.name != Path(files[0]).name]
        lines += [f"Also saved: {self.directory / one.name} {_described(one)}" for one in further[:_NAMED]]
        if len(further) > _NAMED:
            lines.append(f"{len(further) - _NAMED} more files beside them are named in the first one.")
        lines.append(_how_to_read(files) + (_AS_JSON if self.settings.format == "json" else ""))
        said = "\n".join(lines)
        heading = " An excerpt:\n"
        excerpt = _excerpt(
            layout.text, self.settings.head_chars, self.settings.tail_chars, limit - len(said) - len(heading)
        )
        return f"{said}{heading}{excerpt}" if excerpt else said

    def _cut(self, tool: Tool, blocks: tuple[Block, ...], total: int, problem: Exception) -> tuple[Block, ...]:
        """What is left where nothing can be saved. Up to the hard cap that is everything: the rest would be lost."""
        why = (isinstance(problem, OSError) and problem.strerror) or "no file can be named there"
        if not self._warned:
            self._warned = True
            logger.warning(
                "tool results cannot be saved in %s (%s): they stay in the conversation",
                shown(self.directory),
                why,
            )
        cap = self.settings.hard_cap_chars
        if total <= cap:
            return blocks
        note = (
            f"This result of {shown(tool.name)} is too long to be shown, {total} characters, and could not be saved "
            f"to disk ({why}). Only a part of it follows; ask for less at a time to see the rest."
        )
        text = mend("\n".join(_as_text(block) if _data(block) is None else _omitted(block) for block in blocks))
        room = cap - len(note) - 1
        excerpt = _excerpt(text, room - room // 4, room // 4, room) if room > 0 else ""
        return (Text(f"{note}\n{excerpt}" if excerpt else note),)


def _excerpt(text: str, head: int, tail: int, room: int) -> str:
    """Head and tail of a text with a line between them, in so much room; nothing twice, all of it where that fits."""
    if len(text) <= min(head + tail, room):
        return text
    room -= len(_gap(len(text))) + 2
    if room <= 0 or head + tail <= 0:
        return ""
    if head + tail > room:
        head = room * head // (head + tail)
        tail = room - head if tail else 0
    parts = [text[:head]] if head else []
    parts.append(_gap(len(text) - head - tail))
    if tail:
        parts.append(text[-tail:])
    return "\n".join(parts)


def _gap(left_out: int) -> str:
    return f"[{left_out} characters left out here]"


def _lay_out(tool_use_id: str, blocks: tuple[Block, ...]) -> _Layout:
    """Text in one file, blocks joined by a line break, with a line in place of each image or document that names
    its file beside this one. Without any text there is no text file, unless it has to name the files."""
    contents = [_encoded(_data(block) or _as_text(block)) for block in blocks]
    kinds = " ".join(f"{kind_of(block)}:{_media_type(block)}" for block in blocks)
    stem = f"{_safe(tool_use_id)}-{_digest(tool_use_id, kinds, *(raw for _, raw in contents))}"
    pieces: list[tuple[str, bytes]] = []
    media: list[_Medium] = []
    for block, content in zip(blocks, contents, strict=True):
        if isinstance(block, Image | Document) and _data(block) is not None:
            data, extension = _decoded(block, content[1])
            media.append(_Medium(f"{stem}-{len(media) + 1}{extension}", _media_type(block), data))
            pieces.append(_encoded(f"[{media[-1].name} {_described(media[-1])}]"))
        else:
            pieces.append(content)
    files = {medium.name: medium.data for medium in media}
    if len(media) == len(blocks) <= _NAMED:
        return _Layout(files, "", tuple(media))
    text, raw = "\n".join(text for text, _ in pieces), b"\n".join(raw for _, raw in pieces)
    return _Layout({f"{stem}.txt": raw, **files}, text, tuple(media))


def _how_to_read(files: tuple[str, ...]) -> str:
    if all(file.endswith(_READABLE) for file in files):
        return f"Call {READ_FILE} with {'this path' if len(files) == 1 else 'these paths'} to read all of it."
    if len(files) == 1:
        return "It is neither text nor an image; look at it with run_command."
    return f"Call {READ_FILE} with these paths to read all of it, run_command for what is neither text nor an image."


def _described(medium: _Medium) -> str:
    return f"({medium.kind}, {len(medium.data)} bytes)"


def _omitted(block: Block) -> str:
    return f"[{_media_type(block)} left out here]"


def _media_type(block: Block) -> str:
    return shown(getattr(block, "media_type", None) or "unknown type")


def _data(block: Block) -> str | None:
    return (block.data or None) if isinstance(block, Image | Document) else None


def _as_text(block: Block) -> str:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Image | Document):
        return block.url or ""
    if isinstance(block, Opaque):
        return block.raw.decode("utf-8", "replace")
    return json.dumps(msgspec.to_builtins(block))


def _decoded(block: Image | Document, content: bytes) -> tuple[bytes, str]:
    """Return the bytes of an image or document, and its file's suffix. Invalid base64 is returned unchanged."""
    kind = (block.media_type or "").partition(";")[0].strip().lower()
    if isinstance(block, Document) and kind == "text/plain":
        return content, ".txt"
    for join in (bytes, lambda lines: b"".join(lines.split())):  # in one piece, or in lines
        with suppress(ValueError):
            return binascii.a2b_base64(join(content), strict_mode=True), _EXTENSIONS.get(kind, ".bin")
    return content, ".txt"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _encoded(text: str) -> tuple[str, bytes]:
    try:
        return text, text.encode("utf-8")
    except UnicodeEncodeError:
        mended = mend(text)
        return mended, mended.encode("utf-8")


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"%d:" % len(raw))
        digest.update(raw)
    return digest.hexdigest()[:32]


def _safe(name: str) -> str:
    """A readable part of a file's name; what makes it unique comes behind it."""
    return _unsafe.sub("-", name)[:40].strip("-") or "result"
