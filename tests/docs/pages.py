"""The documentation's pages, taken apart: code blocks by language, words in backticks, commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))

_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_PROGRAM = re.compile(r"(?:^|[\s/(])holdfast(?=\s)")
_ENDS = ("|", ">", ">>", ";", "&&", "||", "&", ")")


class Command(NamedTuple):
    """A call of `holdfast` that a page shows: the page, and the words behind the program's name."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: holdfast {' '.join(self.words)}"


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[str]:
    """The code blocks of some languages."""
    return [code for language, code in _BLOCK.findall(text(page)) if language in languages]


def examples(page: str, after: str = "") -> list[tuple[str, str | None]]:
    """The Python blocks from a heading on, each with the `text` block right below it: what it prints."""
    whole = text(page)
    found = list(_BLOCK.finditer(whole, whole.index(after)))
    pairs = zip(found, [*found[1:], None], strict=True)
    return [(each[2], _shown(whole, each, below)) for each, below in pairs if each[1] == "python"]


def _shown(whole: str, code: re.Match[str], below: re.Match[str] | None) -> str | None:
    adjacent = below is not None and below[1] == "text" and not whole[code.end() : below.start()].strip()
    return below[2] if below is not None and adjacent else None


def spans(page: str) -> list[str]:
    """What stands in backticks, line ends in it made spaces; code blocks left out."""
    return [" ".join(span.split()) for span in _SPAN.findall(_BLOCK.sub("", text(page)))]


def prose(page: str) -> str:
    """A page without its code blocks and what stands in backticks."""
    return _SPAN.sub("", _BLOCK.sub("", text(page)))


def commands(page: str) -> Iterator[Command]:
    """Every call of `holdfast` in shell blocks and in backticks."""
    for code in blocks(page, "sh", "bash", ""):
        for line in code.replace("\\\n", " ").splitlines():
            yield from _called(page, line)
    for span in spans(page):
        if span.startswith("holdfast ") or " holdfast " in span:
            yield from _called(page, span)


def _called(page: str, line: str) -> Iterator[Command]:
    for found in _PROGRAM.finditer(line):
        if line.lstrip().startswith("#"):
            continue
        words = _words(line[found.end() :])
        if words and re.match(r"-|[a-z]", words[0]):
            yield Command(page, words)


def _words(line: str) -> tuple[str, ...]:
    """The words of one command, up to a pipe or a comment. An unclosed quote is that of the command around it."""
    try:
        found = shlex.split(line, comments=True)
    except ValueError:
        found = line.split("#", 1)[0].split()
    end = next((i for i, word in enumerate(found) if word.rstrip(",.") in _ENDS), len(found))
    return tuple(found[:end])
