"""SKILL.md files for the comparison with the reference validator: every mutation alone, and many at once."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cached_property

import yaml

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


class Case:
    """A skill on disk, and what a plain look at it shows, without the code under test."""

    def __init__(
        self,
        front: str,
        *,
        directory: str = "pdf",
        file: str = "SKILL.md",
        opening: str = "---\n",
        closing: str = "---\n",
        body: str = "Do it.\n",
        encoding: str = "utf-8",
        end: str = "\n",
    ) -> None:
        self.directory, self.file = directory, file
        self.data = f"{opening}{front}\n{closing}{body}".replace("\n", end).encode(encoding, "replace")

    def __repr__(self) -> str:
        return f"{self.directory}/{self.file}: {self.data[:600]!r}"

    @cached_property
    def text(self) -> str:
        """As a program reads it that knows nothing of byte order marks."""
        return self.data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")

    @cached_property
    def front(self) -> str | None:
        """Between the first two lines that are exactly three hyphens."""
        found = re.match(r"\ufeff?---\n(.*?)^---$", self.text, re.DOTALL | re.MULTILINE)
        return found[1] if found else None

    @cached_property
    def tokens(self) -> set[str]:
        try:
            return {type(token).__name__ for token in yaml.scan(self.front or "", Loader=yaml.SafeLoader)}
        except yaml.YAMLError:
            return set()

    @cached_property
    def nodes(self) -> dict[str, yaml.Node]:
        try:
            root = yaml.compose(self.front or "", Loader=yaml.SafeLoader)
        except yaml.YAMLError:
            return {}
        return {str(key.value): value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}

    @property
    def name(self) -> str:
        node = self.nodes.get("name")
        return node.value if isinstance(node, yaml.ScalarNode) else ""

    def members(self) -> list[tuple[yaml.Node, yaml.Node]]:
        node = self.nodes.get("metadata")
        return list(node.value) if isinstance(node, yaml.MappingNode) else []


# fmt: off
NAMES = [
    "pdf", "PDF", "Pdf", "-pdf", "pdf-", "p--df", "p_df", "p df", "p.df", "'pdf'", '"pdf"', "' pdf'",
    '"pdf\\n"', "", "~", "''", "'  '", "x" * 64, "x" * 65, "123", "1.0", "on", "2024-01-01", "é", "É", "straße",
    "ﬁx", "²", "\N{CJK UNIFIED IDEOGRAPH-6587}", "a-b-c", "-", "--", "'-'", "a" * 63 + "-", "[pdf]",
    "pdf # comment", "pdf: x", "|\n  pdf", ">-\n  pdf", "\n  pdf", "&n pdf", "!!str pdf", "null", "0x1f", "1e3",
    "12:30", "=", "a---b", "p\N{ZERO WIDTH SPACE}df", "\tpdf",
]
DESCRIPTIONS = [
    "Fills forms.", "''", "", "' '", '"\\n"', "~", "x" * 1_024, "x" * 1_025, "é" * 1_024, "é" * 1_025, "a: b",
    "'a: b'", "a # b", "#", "|\n  two\n  lines", ">\n  folded\n  text", "|\n  " + "x" * 1_023,
    "|\n  " + "x" * 1_024, "|-\n  " + "x" * 1_024, "5", "yes", "'yes'", "[a, b]", "{a: b}", "- a", "\n- a",
    "\n  a: b", "*alias", "&a text", "!x text", "@at", "`tick`", "%percent", "'open", '"open', "a --- b",
    "'---'", "=", "\tTab", "two\n  lines", '"esc\\u00e9"', '"\\q"', "\N{GRINNING FACE}", "null", "'~'", "a\tb",
    "x\x07y", "x\N{NO-BREAK SPACE}y", "'it''s'", "2024-01-01", ".5", "|", ">", "? a", "a\N{LINE SEPARATOR}b",
    "'a\N{LINE SEPARATOR}b'",
]
LICENSES = [
    "MIT", "'MIT'", "", "''", "~", "1.0", "[MIT]", "\n- MIT", "\n  a: b", "x" * 5_000, "see LICENSE", "a: b",
    "true",
]
COMPATIBILITIES = [
    "Needs git", "", "''", "x" * 500, "x" * 501, "é" * 500, "3.11", "false", "[a]", "\n- a", "\n  a: b",
    "'3.11'",
]
METADATA = [
    "\n  author: me", '\n  version: "1.0"', "\n  version: 1.0", "\n  a: true", "\n  a: b\n  c: d",
    "\n  a: b\n  a: c", "", "{}", "{a: b}", "text", "5", "[a]", "\n- a", "\n  a:", "\n  a: ''", "\n  a:\n  - b",
    "\n  a:\n    b: c", "\n  1: b", "\n  true: b", "\n  'a b': c", "\n    deep: x\n    er: y",
    "\n  a: b\n c: d", "\n  a: b\n    c: d", "\n  a: 2024-01-01", "\n  a: ~", "''", "\n  : b",
    "\n  a:\n    b: c\n    b: d", "\n  <<: b", "\n  a: =", "|\n  a: b",
]
TOOLS = [
    "Read Grep", "Bash(git:*) Read", "", "''", "'Read'", "\n- Read", "[Read]", "Read, Grep", "5", "\n  a: b",
    "*", "'*'", "Bash(a b)",
]
OTHERS = [
    "version: 1", "allowed_tools: Read", "Name: pdf", "x:", "5: y", "hooks:\n  a: b", "name: pdf",
    "description: again", "# a comment", "", "  indented: x", "- item", "plain", "'quoted': x", "? x\n: y",
    "<<: x", "...", "a\tb: c", "license: MIT",
]
VARIANTS = {
    "name": NAMES, "description": DESCRIPTIONS, "license": LICENSES, "compatibility": COMPATIBILITIES,
    "metadata": METADATA, "allowed-tools": TOOLS,
}
OPENINGS = [
    "---\n", "", "\n---\n", "--- \n", "---foo\n", "----\n", " ---\n", "--\n", "---\n\n", "--- # x\n",
    "---\n---\n", "text\n---\n",
]
CLOSINGS = [
    "---\n", "---", "", "--- \n", "---foo\n", "----\n", "  ---\n", "--\n", "...\n", "\n\n---\n\n",
    "--- x\n---\n", "---\n---\n",
]
BODIES = [
    "Do it.\n", "", "\n\n", "---\n", "a --- b\n", "# T\n\n- x\n", "\N{GRINNING FACE}", "\x00\x01",
    "name: other\n",
]
PLACES = [
    {"encoding": "utf-8-sig"}, {"encoding": "utf-16"}, {"encoding": "latin-1"}, {"end": "\r\n"}, {"end": "\r"},
    {"file": "skill.md"}, {"file": "Skill.md"}, {"file": "README.md"}, {"directory": "PDF"},
    {"directory": "other"}, {"directory": "pdf-2"},
]
FRONTS = ["", "~", "- a", "text", "[]", "{}", "# only", "'", "\t", "a: b: c", "a\nb: c"]
# fmt: on


def line(field: str, value: str) -> str:
    return f"{field}:{value}" if value.startswith("\n") or not value else f"{field}: {value}"


def written(value: str) -> str:
    """What a directory must be called so that this name is right."""
    try:
        return str(yaml.safe_load(value) or "pdf").strip()
    except (yaml.YAMLError, ValueError):
        return "pdf"


def single() -> Iterator[Case]:
    """Every mutation alone."""
    good = {"name": "pdf", "description": "Fills forms."}
    for field, values in VARIANTS.items():
        for value in values:
            front = "\n".join(line(key, text) for key, text in {**good, field: value}.items())
            yield Case(front)
            if field == "name":
                yield Case(front, directory=written(value))
                yield Case(f"description: d\n{line(field, value)}", directory=value.strip("'\" \n") or "pdf")
    front = "\n".join(line(*each) for each in good.items())
    for other in OTHERS:
        yield Case(f"{front}\n{other}")
        yield Case(f"{other}\n{front}")
    yield from (Case(line(key, text)) for key, text in good.items())
    yield from (Case(text) for text in FRONTS)
    yield from (Case(front, opening=opening) for opening in OPENINGS)
    yield from (Case(front, closing=closing) for closing in CLOSINGS)
    yield from (Case(front, body=body) for body in BODIES)
    yield from (Case(f"{front}é" if "encoding" in place else front, **place) for place in PLACES)


def mixed(count: int) -> Iterator[Case]:
    """Several mutations at once, in any order of the fields."""
    chance = random.Random(8)
    for _ in range(count):
        odd = chance.choice((0.05, 0.2, 0.5))

        def pick(values: list[str], odd: float = odd) -> str:
            return chance.choice(values) if chance.random() < odd else values[0]

        name = pick(NAMES)
        fields = {"name": name, "description": pick(DESCRIPTIONS)}
        fields |= {key: pick(VARIANTS[key]) for key in FIELDS[2:] if chance.random() < 0.4}
        lines = [line(*each) for each in fields.items() if chance.random() > odd / 8]
        lines += [chance.choice(OTHERS) for _ in range(2) if chance.random() < odd / 3]
        chance.shuffle(lines)
        place = chance.choice(PLACES) if chance.random() < odd / 3 else {}
        directory = written(name) if chance.random() > odd / 4 else "other"
        parts = {"opening": pick(OPENINGS, odd / 4), "closing": pick(CLOSINGS, odd / 4), "body": pick(BODIES)}
        yield Case("\n".join(lines), **{"directory": directory, **parts, **place})
