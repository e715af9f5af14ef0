"""The search of grep_files, as a program of its own: a pattern that never ends can then be stopped by ending it.

Runs by its path with nothing but the standard library. Takes its task as JSON in the first argument and an open
directory as a descriptor; prints what it found as text, then a zero byte and a summary as JSON. Follows no symlinks,
passes over .git, what .gitignore files leave out, and files that are not text. Sorted, so that one tree gives one text.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, TextIO

LONGEST_LINE = 1 << 20  # characters; a longer line is searched in pieces
SHOWN = 300  # characters of a line
BEFORE = 100  # of these, in front of the match
LONGEST_WORD = 512
_WORD = re.compile(r"[-_A-Za-z0-9+/.~]*")
LOOK = 8192
DEEPEST = 100
_FLAGS = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):  # not every system has them all
    _FLAGS |= getattr(os, _flag, 0)


class IgnoreRule(NamedTuple):
    """A line of a .gitignore."""

    pattern: re.Pattern[str]
    ignores: bool
    directories: bool


class IgnoreLevel(NamedTuple):
    """The rules of one directory, and how many parts of a path lead to it."""

    depth: int
    rules: tuple[IgnoreRule, ...]


def translated(glob: str) -> str:
    """A glob over paths as a regular expression: `*` and `?` stay within a name, `**` does not, `{a,b}` is a or b."""
    out: list[str] = []
    at = braces = 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*":
            if glob.startswith("*", at):
                at = re.compile(r"\**").match(glob, at).end()  # type: ignore[union-attr]  # matches anything
                if glob.startswith("/", at):
                    at += 1
                    out.append("(?:[^/]+/)*")
                else:
                    out.append(".*")
            else:
                out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := glob.find("]", at + 1 + glob.startswith("!", at))) > 0:
            inside = glob[at:end].replace("\\", "\\\\").replace("[", "\\[")
            inside = "^/" + inside[1:] if inside[0] in "!^" else inside
            out.append(f"[{inside}]")
            at = end + 1
        elif char == "{" and "}" in glob[at:]:
            out.append("(?:")
            braces += 1
        elif char == "}" and braces:
            out.append(")")
            braces -= 1
        elif char == "," and braces:
            out.append("|")
        elif char == "\\" and at < len(glob):
            out.append(re.escape(glob[at]))
            at += 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def name_pattern(glob: str | None) -> re.Pattern[str] | None:
    """What a path below the searched directory has to match; a glob without a slash means the name alone."""
    if not glob:
        return None
    glob = glob.removeprefix("./")
    anywhere = "" if "/" in glob else "(?:.*/)?"
    return re.compile(f"{anywhere}(?:{translated(glob.removeprefix('/'))})", re.DOTALL)


def rules(content: str) -> tuple[IgnoreRule, ...]:
    """The rules of a .gitignore; lines that make no sense are passed over."""
    rules_ = []
    for raw in content.splitlines():
        line = raw.rstrip() if not raw.endswith("\\ ") else raw
        if not line or line.startswith("#"):
            continue
        ignores = not line.startswith("!")
        line = line if ignores else line[1:]
        directories = line.endswith("/")
        line = line.rstrip("/")
        anywhere = "" if "/" in line else "(?:.*/)?"
        try:
            pattern = re.compile(f"{anywhere}{translated(line.removeprefix('/'))}", re.DOTALL)
        except re.error:
            continue
        rules_.append(IgnoreRule(pattern, ignores, directories))
    return tuple(rules_)


def ignored(path: tuple[str, ...], directory: bool, levels: tuple[IgnoreLevel, ...]) -> bool:
    """Return whether the last matching rule ignores a path; rules nearer to it come later."""
    verdict = False
    for level in levels:
        below = "/".join(path[level.depth :])
        for rule in level.rules:
            if (directory or not rule.directories) and rule.pattern.fullmatch(below):
                verdict = rule.ignores
    return verdict


class BadGlob(Exception):
    pass


class GrepSearch:
    """One search. `matches` and `files` are counts, `cut` is set if it ended at the limit."""

    def __init__(self, task: dict[str, object], out: TextIO) -> None:
        flags = re.IGNORECASE if task.get("ignore_case") else 0
        self._pattern = re.compile(str(task["pattern"]), flags)
        try:
            self._glob = name_pattern(task.get("glob"))  # type: ignore[arg-type]  # a string or nothing
        except re.error as problem:
            raise BadGlob(str(problem)) from problem
        self._context = int(str(task.get("context", 0)))
        self._left = int(str(task["limit"]))
        self._closed = frozenset(tuple(one) for one in task.get("closed", ()))  # type: ignore[attr-defined]
        self._out = out
        self.matches = self.files = 0
        self.cut = False

    def run(self, root: int, parts: tuple[str, ...]) -> None:
        """Search the file or directory at `parts` below an open directory."""
        levels: tuple[IgnoreLevel, ...] = ()
        at = os.dup(root)
        try:
            for depth, part in enumerate(parts):
                levels = (*levels, self._level(at, depth))
                below = os.open(part, _FLAGS, dir_fd=at)
                os.close(at)
                at = below
            if stat.S_ISDIR(os.fstat(at).st_mode):
                self._directory(at, parts, levels, len(parts))
            else:
                with os.fdopen(os.dup(at), "rb") as file:
                    self._file(file, parts)
        finally:
            os.close(at)

    def _level(self, at: int, depth: int) -> IgnoreLevel:
        try:
            file = os.open(".gitignore", _FLAGS, dir_fd=at)
        except OSError:
            return IgnoreLevel(depth, ())
        with os.fdopen(file, "rb") as opened:
            regular = stat.S_ISREG(os.fstat(file).st_mode)
            return IgnoreLevel(depth, rules(opened.read(1 << 20).decode("utf-8", "replace")) if regular else ())

    def _directory(self, at: int, path: tuple[str, ...], levels: tuple[IgnoreLevel, ...], start: int) -> None:
        levels = (*levels, self._level(at, len(path)))
        with os.scandir(at) as entries:
            items = sorted((item.name, item.is_dir(follow_symlinks=False), item.is_symlink()) for item in entries)
        for name, directory, link in items:
            below = (*path, name)
            if self.cut:
                return
            if link or below in self._closed or ignored(below, directory, levels):
                continue
            if directory and (name == ".git" or len(below) > DEEPEST):
                continue
            if not directory and self._glob and not self._glob.fullmatch("/".join(below[start:])):
                continue
            try:
                opened = os.open(name, _FLAGS, dir_fd=at)
            except OSError:  # gone, swapped for a symlink, or not for us
                continue
            if directory:
                try:
                    self._directory(opened, below, levels, start)
                finally:
                    os.close(opened)
            else:
                with os.fdopen(opened, "rb") as file:
                    self._file(file, below)

    def _file(self, file: BinaryIO, path: tuple[str, ...]) -> None:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or b"\0" in file.read(LOOK):
            return
        file.seek(0)
        name = "/".join(path)
        before: deque[tuple[int, str]] = deque(maxlen=self._context)
        after = last = 0
        for number, line in _lines(file):
            match = self._pattern.search(line)
            if match:
                self._head(name, last, number - len(before))
                for earlier, text in before:
                    self._row(earlier, "-", text, 0)
                self._row(number, ":", line, match.start())
                before.clear()
                after, last = self._context, number
                self.matches += 1
                self._left -= 1
            elif after:
                self._row(number, "-", line, 0)
                after, last = after - 1, number
            elif self._context:
                before.append((number, line))
            if not self._left:
                self.cut = True
                break
        if last:
            self.files += 1
            self._out.flush()

    def _head(self, name: str, last: int, first: int) -> None:
        if not last:
            self._out.write(("\n" if self.files else "") + f"{_printable(name)}\n")
        elif self._context and first > last + 1:
            self._out.write("--\n")

    def _row(self, number: int, mark: str, line: str, at: int) -> None:
        start = max(0, at - BEFORE) if len(line) > SHOWN else 0
        end = min(len(line), start + SHOWN)
        start, end = start - _cut_word_length(line[:start][::-1]), end + _cut_word_length(line[end:])
        shown = line[start:end]
        cut = "…" if start else "", "…" if end < len(line) else ""
        self._out.write(f"{number}{mark}{cut[0]}{shown}{cut[1]}\n".replace("\0", "\ufffd"))


def _cut_word_length(rest: str) -> int:
    """Return the length of a cut word's rest, since half a key is not recognised as one. Longer text is no word."""
    match = _WORD.match(rest, 0, LONGEST_WORD + 1)
    length = match.end() if match else 0
    return length if length <= LONGEST_WORD else 0


def _lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; those of a long line have the same."""
    number, rest = 1, b""
    while block := file.read(LONGEST_LINE):
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield number, line.decode("utf-8", "replace").rstrip("\r")
            number += 1
        if len(rest) >= LONGEST_LINE:
            yield number, rest.decode("utf-8", "replace")
            rest = b""
    if rest:
        yield number, rest.decode("utf-8", "replace")


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def main(argument: str) -> None:
    task = json.loads(argument)
    signal.alarm(task["seconds"])  # ends this program by itself, even if nobody is left to do it
    out = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115  (kept until the end)
    summary: dict[str, object] = {}
    try:
        search = GrepSearch(task, out)
        search.run(task["root"], tuple(task["parts"]))
        summary = {"matches": search.matches, "files": search.files, "cut": search.cut}
    except (re.error, OverflowError, RecursionError) as problem:
        summary = {"pattern": str(problem)}
    except BadGlob as problem:
        summary = {"glob": str(problem)}
    except OSError as problem:
        summary = {"problem": problem.strerror or type(problem).__name__}
    out.write("\0" + json.dumps(summary))
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1])
