"""The two parts of a SKILL.md, and the fields between its fences as YAML nodes with the line each stands on.

Reads a stranger's text: nothing in it is ever made into an object, and depth and number of its values have a limit.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import NoReturn

import yaml
from msgspec import Struct

from holdfast.tools import shown

from .skill import SkillProblem, SkillValidationError

FENCE = "---"

_LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_KNOWN = frozenset(
    (
        "null",
        "bool",
        "int",
        "float",
        "binary",
        "timestamp",
        "omap",
        "pairs",
        "set",
        "str",
        "seq",
        "map",
        "merge",
        "value",
    )
)
"""The types of plain YAML; every other tag asks for an object of some program."""

MOST_LEVELS = 50
MOST_EVENTS = 20_000
MOST_DIRECTIVES = 50
"""A parser needs time in the square of the depth and of its directives, and memory for each value; no skill comes near
any of them."""

_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")
_DIRECTIVE = re.compile("(?:^|[\n\x85\u2028\u2029])%")


class FrontmatterField(Struct, frozen=True):
    """The YAML nodes of a field in the file."""

    key: yaml.Node
    value: yaml.Node


class Frontmatter:
    """The fields of a SKILL.md by name, its body, and their lines. Raises SkillValidationError if there are no fields;
    duplicate fields are among `problems`."""

    def __init__(self, text: str) -> None:
        self._text, self.body = split(text)
        self._breaks: list[int] | None = None
        self.problems: list[SkillProblem] = []
        root = self._compose()
        if root is None:
            _fail("the frontmatter has no fields; it needs `name` and `description`", 1)
        if not isinstance(root, yaml.MappingNode):
            kind_ = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
            _fail(f"the frontmatter is {kind_}, not fields; write each as `name: value`", self.line(root))
        self._refuse_tags(root)
        self.fields = self.members(root)

    def line(self, node: yaml.Node) -> int:
        return self._line(node.start_mark.index)

    def members(self, node: yaml.MappingNode, inside: str = "") -> dict[str, FrontmatterField]:
        """Return a mapping's fields by key. Merged mappings are refused: expanding them may never end."""
        members_: dict[str, FrontmatterField] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is None:
                self._add("a field's name must be a word, not a list or a mapping", key, inside)
            elif kind(key) == "merge":
                self._add("`<<` is not supported; write the fields out", key, inside)
            elif name in members_:
                first = self.line(members_[name].key)
                where = f" in `{inside}`" if inside else ""
                self._add(f"`{shown(name)}` stands{where} twice, first in line {first}; keep one", key, inside or name)
            else:
                members_[name] = FrontmatterField(key, value)
        return members_

    def _add(self, message: str, node: yaml.Node, field: str) -> None:
        self.problems.append(SkillProblem(message=message, line=self.line(node), field=field or None))

    def _line(self, index: int) -> int:
        """The line in the file: the frontmatter begins in its second. YAML's own count takes rare characters for line
        breaks that no editor shows as such."""
        if self._breaks is None:
            self._breaks = [at for at, char in enumerate(self._text) if char == "\n"]
        return bisect_left(self._breaks, index) + 2

    def _compose(self) -> yaml.Node | None:
        try:
            self._bound()
            root: yaml.Node | None = yaml.compose(self._text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            if mark is not None and error.context_mark is not None and mark.index >= len(self._text.rstrip()):
                mark = error.context_mark  # what is open at the end was opened there
            line = 1 if mark is None else self._line(mark.index)
            line, advice = self._advice(error, line)
            _fail(f"the frontmatter is not valid YAML ({shown(error.problem)}); {advice}", line, error)
        except yaml.reader.ReaderError as error:
            _fail("the frontmatter holds a character that YAML does not allow; remove it", self._unreadable(), error)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            _fail(f"the frontmatter is not valid YAML ({shown(error)}); correct it", 1, error)
        return root

    def _advice(self, error: yaml.MarkedYAMLError, line: int) -> tuple[int, str]:
        """Return the line to look at, and what to do there."""
        began = line if error.context_mark is None else self._line(error.context_mark.index)
        for at in (line, began):
            match = _OTHER_BREAKS.search(self._text.split("\n")[max(0, at - 2)])
            if match is not None:
                code = f"U+{ord(match[0]):04X}"
                return at, f"the line holds {code}, at which YAML breaks it: remove that, or quote the value"
        if "mapping values are not allowed" in str(error.problem):
            return line, "a value with a colon in it must be in quotes"
        return line, "correct that place"

    def _bound(self) -> None:
        """Refuses what would take the parser long or the interpreter down, before it is built."""
        directives = [match.end() for match in islice(_DIRECTIVE.finditer(self._text), MOST_DIRECTIVES + 1)]
        if len(directives) > MOST_DIRECTIVES:
            _fail("the frontmatter has too many lines that begin with `%`; remove them", self._line(directives[0]))
        depth = 0
        for count, event in enumerate(yaml.parse(self._text, Loader=_LOADER)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MOST_LEVELS:
                _fail("the frontmatter is nested too deeply; flatten it", self._line(event.start_mark.index))
            if count > MOST_EVENTS:
                _fail("the frontmatter has too many values; shorten it", self._line(event.start_mark.index))

    def _unreadable(self) -> int:
        """The line of the first character that YAML forbids; the two parsers count to it in different units."""
        match = yaml.reader.Reader.NON_PRINTABLE.search(self._text)
        return 1 if match is None else self._line(match.start())

    def _refuse_tags(self, root: yaml.Node) -> None:
        for node in _every(root):
            if kind(node) not in _KNOWN:
                line = self.line(node)
                _fail(f"the tag {shown(node.tag)} is not part of plain YAML; leave it out", line)


def kind(node: yaml.Node) -> str:
    """What YAML takes a value for: str, int, float, bool, null, timestamp, seq, map …"""
    tag: str = node.tag
    return tag.removeprefix(_TAG)


def normal(text: str) -> str:
    """The text without a byte order mark and with one kind of line end."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def split(text: str) -> tuple[str, str]:
    """Frontmatter and body; a fence is a line of three hyphens and nothing else."""
    text = normal(text)
    if not text.strip():
        _fail("the file is empty; begin it with a line `---`, the fields, and another line `---`", 1)
    first, _, rest = text.partition("\n")
    if first != FENCE:
        hint = " without anything behind it" if first.startswith(FENCE) else ""
        _fail(f"the first line must be `---`{hint}; it is '{shown(first)}'", 1)
    if rest.startswith(f"{FENCE}\n") or rest == FENCE:
        return "", rest.removeprefix(FENCE).lstrip("\n")
    end = rest.find(f"\n{FENCE}\n")
    if end < 0 and rest.endswith(f"\n{FENCE}"):
        end = len(rest) - len(FENCE) - 1
    if end < 0:
        near = next((at for at, line in enumerate(rest.split("\n"), 2) if line.strip() == FENCE), None)
        hint = "" if near is None else f"; line {near} has spaces beside its hyphens"
        _fail(f"the frontmatter is not closed by a line `---`{hint}", near or 1)
    return rest[: end + 1], rest[end + 1 + len(FENCE) :].lstrip("\n")


def _every(root: yaml.Node) -> Iterator[yaml.Node]:
    """Each node once, however often aliases lead to it."""
    seen, open_nodes = {id(root)}, [root]
    while open_nodes:
        node = open_nodes.pop()
        yield node
        if isinstance(node, yaml.MappingNode):
            below = [each for pair in node.value for each in pair]
        else:
            below = node.value if isinstance(node, yaml.SequenceNode) else []
        for each in below:
            if id(each) not in seen:
                seen.add(id(each))
                open_nodes.append(each)


def _fail(message: str, line: int, cause: Exception | None = None) -> NoReturn:
    raise SkillValidationError([SkillProblem(message=message, line=line)]) from cause
