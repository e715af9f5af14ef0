"""read_file, write_file and list_dir. All three go through the workspace, which says where they may."""

from __future__ import annotations

import base64
import difflib
import errno
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO

from msgspec import Struct

from holdfast.config import printable
from holdfast.config.sections import OffloadSettings
from holdfast.records import Image

from ..contract import Tool, ToolContext, ToolExecutionError, ToolOutput, Touch
from ..results import EXEMPT, MAX_IMAGE_BYTES, image_type
from ..time_limits import in_thread
from ..toolkit import as_bytes, go_on, in_words, opened_directory, path_of, schema, text, whole
from ..workspace import Workspace
from .file_pages import LOOK, not_text, read_page

NOTE_ROOM = 250
"""Characters of a page reserved for the notes."""
LEAST_PAGE = 200
MOST_DEPTH = 8
MOST_ENTRIES = 1000
UNOPENED = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})


def page_chars(offload: OffloadSettings, *, explicit: bool) -> int:
    """Characters of a page: what stays inline anyway, or up to the hard cap where so much may be `asked` for."""
    inline = offload.per_tool.get("read_file", offload.max_result_chars or offload.read_chars)
    most = offload.hard_cap_chars if explicit else min(inline, offload.hard_cap_chars)
    return max(LEAST_PAGE, most - NOTE_ROOM)


def read_file(offload: OffloadSettings) -> Tool:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await in_thread(_read, input, context, offload)

    return Tool(
        name="read_file",
        description="Read a text file or image. Long files come in pages, with a note how to read on.",
        run=run,
        effect="read",
        input_schema=schema(
            {"path": text()},
            {
                "offset": whole("First line, from 1", minimum=1),
                "limit": whole("Number of lines", minimum=1),
                "start_char": whole("Characters of the first line to skip", minimum=0),
            },
        ),
        paths=(Touch("path", "read", outside=True),),
        source="builtin",
        core=True,
        subject=path_of,
    )


def _read(input: Mapping[str, Any], context: ToolContext, offload: OffloadSettings) -> ToolOutput:
    real = context.workspace.resolve(input["path"], "read", outside=True)
    shown = context.workspace.relative(real)
    # A result that was offloaded as text is text, whatever is in it: it has to be found again.
    offloaded = context.workspace.is_offloaded(real)
    is_text = offloaded and real.suffix == ".txt"
    metadata: dict[str, Any] = {"path": shown}
    if offloaded:
        metadata[EXEMPT] = True
    with _open(input["path"], shown, context) as file, in_words(input["path"]):
        head = file.read(LOOK)
        if not is_text and (kind := image_type(head)):
            # A copy of a picture that is on the disk would help nobody.
            return _image(file, kind, shown, metadata | {EXEMPT: True})
        if not is_text and (reason := not_text(head)):
            raise ToolExecutionError(f"{shown} {reason}.")
        page = read_page(
            file,
            offset=int(input.get("offset", 1)),
            limit=int(input["limit"]) if "limit" in input else None,
            skip=int(input.get("start_char", 0)),
            most=page_chars(offload, explicit=offloaded and "limit" in input),
            check=partial(go_on, context),
        )
    text = page.text
    if page.notes:
        text += ("" if text.endswith("\n") or not text else "\n") + page.notes
    return ToolOutput(content=text or "[The file is empty.]", metadata=metadata)


def _open(named: str, shown: str, context: ToolContext) -> BinaryIO:
    try:
        return context.workspace.open_read(named, outside=True)
    except ToolExecutionError as problem:
        code = problem.metadata.get("errno")
        if code == errno.EISDIR:
            raise ToolExecutionError(f"{shown} is a directory; list it with list_dir.", problem.metadata) from problem
        if code == errno.ENOENT:
            sentence = f"{shown} does not exist.{_near(context, shown)}"
            raise ToolExecutionError(sentence, problem.metadata) from problem
        raise


def _image(file: BinaryIO, kind: str, shown: str, metadata: Mapping[str, Any]) -> ToolOutput:
    size = os.fstat(file.fileno()).st_size
    if size > MAX_IMAGE_BYTES:
        raise ToolExecutionError(
            f"{shown} is an image of {size} bytes, more than the {MAX_IMAGE_BYTES} that can be shown; "
            "make a smaller copy with run_command."
        )
    file.seek(0)
    data = base64.b64encode(file.read(MAX_IMAGE_BYTES + 1)).decode("ascii")
    return ToolOutput(content=(Image(media_type=kind, data=data),), metadata=metadata)


def _near(context: ToolContext, shown: str) -> str:
    """Names in the same directory that look like the one that is missing."""
    *parents, name = shown.split("/")
    try:
        with opened_directory(context.workspace.root, parents) as at:
            names = sorted(os.listdir(at))  # noqa: PTH208  (a descriptor, not a path)
    except OSError:
        return ""
    close = difflib.get_close_matches(name, names, n=3)
    return f" Near it: {', '.join('/'.join((*parents, name)) for name in close)}." if close else ""


def write_file() -> Tool:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await in_thread(_write, input, context)

    return Tool(
        name="write_file",
        description="Create a file or replace all of its content. Directories are made as needed.",
        run=run,
        effect="write",
        input_schema=schema({"path": text(), "content": text()}),
        paths=(Touch("path", "write"),),
        source="builtin",
        core=True,
        subject=path_of,
    )


def _write(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    content = input["content"]
    data = as_bytes("content", content)
    go_on(context)
    shown = context.workspace.relative(context.workspace.write(input["path"], data))
    lines = content.count("\n") + bool(content and not content.endswith("\n"))
    return ToolOutput(
        content=f"Wrote {shown} ({lines} {'line' if lines == 1 else 'lines'}).",
        metadata={"path": shown, "bytes": len(data)},
        files_modified=(shown,),
    )


def list_dir() -> Tool:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await in_thread(_list, input, context)

    return Tool(
        name="list_dir",
        description="List a directory, with depth also what is below it.",
        run=run,
        effect="read",
        input_schema=schema({"path": text()}, {"depth": whole("Levels, 1 unless told", minimum=1, maximum=MOST_DEPTH)}),
        paths=(Touch("path", "read"),),
        source="builtin",
        core=True,
        subject=path_of,
    )


def _list(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    workspace = context.workspace
    path = workspace.resolve(input["path"], "read")
    shown = workspace.relative(path)
    if path.is_file():
        raise ToolExecutionError(f"{shown} is a file; read it with read_file.")
    lister = Lister(workspace, path.relative_to(workspace.root).parts, partial(go_on, context))
    with in_words(input["path"]):
        listing = lister.listing(int(input.get("depth", 1)))
    return ToolOutput(content=listing, metadata={"path": shown, "entries": lister.entries})


class TreeEntry(Struct):
    """A name and, of a directory that was opened, what is in it; `left` entries of it found no room."""

    label: str
    name: str
    directory: bool = False
    inside: list[TreeEntry] | None = None
    left: int = 0
    unreadable: bool = False


class Lister:
    """Lists the directory at `parts` of a workspace: sorted, bounded, and the levels nearest to it first.

    Symlinks are shown with their targets and never followed. Directories with thousands of generated files are listed
    and not opened, unless they were requested.
    """

    def __init__(self, workspace: Workspace, parts: tuple[str, ...], check: Callable[[], None]) -> None:
        self._root = workspace.root
        self._closed = workspace.closed
        self._parts = parts
        self._check = check
        self.entries = 0

    def listing(self, depth: int) -> str:
        top = TreeEntry(label="", name="", directory=True)
        self._open(top, ())
        level: list[tuple[TreeEntry, tuple[str, ...]]] = [(top, ())]
        for _ in range(depth - 1):
            level = [
                (entry, (*parts, entry.name))
                for parent, parts in level
                for entry in parent.inside or ()
                if entry.directory and entry.name not in UNOPENED
            ]
            for entry, parts in level:
                if self.entries >= MOST_ENTRIES:
                    break
                try:
                    self._open(entry, parts)
                except OSError:  # gone meanwhile, swapped for a symlink, or not for us
                    entry.unreadable = True
        lines = _lines(top, 0)
        if self.entries >= MOST_ENTRIES:
            lines.append(f"[Stopped at {MOST_ENTRIES} entries; list a directory below for the rest.]")
        return "\n".join(lines) or "[The directory is empty.]"

    def _open(self, entry: TreeEntry, parts: tuple[str, ...]) -> None:
        self._check()
        where = (*self._parts, *parts)
        if self._root.joinpath(*where) in self._closed:
            raise PermissionError
        with opened_directory(self._root, where) as at:
            with os.scandir(at) as entries:
                items = sorted(entries, key=lambda item: item.name)
            room = MOST_ENTRIES - self.entries
            entry.inside = [_entry(item, at) for item in items[:room]]
        entry.left = max(0, len(items) - room)
        self.entries += len(entry.inside)


def _entry(item: os.DirEntry[str], at: int) -> TreeEntry:
    name = printable(item.name)
    if item.is_symlink():
        try:
            target = os.readlink(item.name, dir_fd=at)
        except OSError:
            target = "?"
        return TreeEntry(label=f"{name} -> {printable(target)}", name=item.name)
    if item.is_dir(follow_symlinks=False):
        return TreeEntry(label=f"{name}/", name=item.name, directory=True)
    if not item.is_file(follow_symlinks=False):
        return TreeEntry(label=f"{name} (not a regular file)", name=item.name)
    return TreeEntry(label=name, name=item.name)


def _lines(entry: TreeEntry, indent: int) -> list[str]:
    lines: list[str] = []
    for item in entry.inside or ():
        lines.append("  " * indent + item.label + (" (not readable)" if item.unreadable else ""))
        lines += _lines(item, indent + 1)
    if entry.left:
        lines.append("  " * indent + f"[{entry.left} more]")
    return lines
