"""The six fields of a skill: their rules, and the messages about violations. Reads no files.

A value counts as it is written: `version: 1.0` in the metadata is the text "1.0", and `true` is "true".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from string import ascii_lowercase, ascii_uppercase, digits
from unicodedata import category

import yaml
from msgspec import Struct

from holdfast.tools import shown

from .frontmatter import Frontmatter, FrontmatterField, kind
from .skill import SkillProblem

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")

NAME_CHARS = 64
DESCRIPTION_CHARS = 1_024
COMPATIBILITY_CHARS = 500

TEMPLATE = "Say here what this skill does and when to use it; an agent chooses by this sentence alone."
"""The description of a skill that was just made and is still to be filled in."""

_ALLOWED = frozenset(f"{ascii_lowercase}{digits}-")
_UPPER = frozenset(ascii_uppercase)
_NUMBERLIKE = {"int": "a number", "float": "a number", "bool": "true or false", "timestamp": "a date"}
_KINDS = {
    **_NUMBERLIKE,
    "null": "empty",
    "seq": "a list",
    "map": "a mapping",
    "binary": "binary data",
    "value": "a sign of YAML's own; write it in quotes",
    "merge": "a sign of YAML's own; write it in quotes",
}
_LONGEST_GUESS = 40
_WRITTEN = "\t\n\r\x85"  # of the control characters, those that text has
_IN_BRACKETS = re.compile(r"\([^()]*\)")


class SkillFields(Struct, frozen=True, kw_only=True):
    """The values of a valid frontmatter."""

    name: str
    description: str
    license: str | None
    compatibility: str | None
    metadata: Mapping[str, str] | None
    allowed_tools: tuple[str, ...]


class FieldCheck:
    """The fields of one SKILL.md, checked: `problems` is everything that is wrong, `fields` is None if there is an
    error among it. `strict` makes errors of what a strict reader of the format refuses, `refuse_long` only of a
    description that is too long."""

    def __init__(self, front: Frontmatter, directory: str, *, strict: bool = False, refuse_long: bool = False) -> None:
        self._front, self._directory, self._strict = front, directory, strict
        self._refuse_long = strict or refuse_long
        self._found: list[SkillProblem] = []
        name = self._name()
        description = self._description()
        license_text = self._optional("license")
        compatibility = self._compatibility()
        metadata = self._metadata()
        tools = self._tools()
        self._unknown()
        self.problems = (*front.problems, *self._found)
        self.fields: SkillFields | None = None
        if name is not None and description is not None and all(each.warning for each in self.problems):
            self.fields = SkillFields(
                name=name,
                description=description.strip(),
                license=license_text,
                compatibility=compatibility,
                metadata=metadata,
                allowed_tools=tuple((tools or "").split()),
            )

    def _name(self) -> str | None:
        entry = self._required("name", f"add `name: {shown(self._directory)}`")
        name = None if entry is None else self._text("name", entry)
        if entry is None or name is None:
            return None
        if not name:
            self._error("`name` is empty; give the directory's name", entry, "name")
            return None
        for problem in name_problems(name, self._directory):
            self._error(problem, entry, "name")
        return name

    def _description(self) -> str | None:
        entry = self._required("description", "say what the skill does and when to use it")
        text = None if entry is None else self._text("description", entry)
        if entry is None or text is None:
            return None
        if not text.strip():
            self._error("`description` is empty; say what the skill does and when to use it", entry, "description")
        if self._refuse_long:
            self._length("description", text, DESCRIPTION_CHARS, entry)
        elif warning := long_description(text):
            self._warn(warning, entry, "description")
        if text.strip() == TEMPLATE:
            message = "`description` is still that of the template; say what it does and when to use it"
            self._warn(message, entry, "description")
        if controls := [char for char in dict.fromkeys(text) if category(char) == "Cc" and char not in _WRITTEN]:
            which = " ".join(f"U+{ord(char):04X}" for char in controls[:5])
            message = f"`description` has control characters ({which}); remove them, the index has spaces there"
            self._warn(message, entry, "description")
        return text

    def _tools(self) -> str | None:
        text = self._optional("allowed-tools", "; write the names in one line with spaces between them")
        if text is not None and "," in _IN_BRACKETS.sub("", text):
            entry = self._front.fields["allowed-tools"]
            self._warn("`allowed-tools` has commas; its names are separated by spaces", entry, "allowed-tools")
        return text

    def _compatibility(self) -> str | None:
        text = self._optional("compatibility")
        if text is not None:
            self._length("compatibility", text, COMPATIBILITY_CHARS, self._front.fields["compatibility"])
        return text

    def _metadata(self) -> dict[str, str] | None:
        entry = self._field("metadata")
        if entry is None:
            return None
        if kind(entry.value) != "map" or not isinstance(entry.value, yaml.MappingNode):
            kind_ = _KINDS.get(kind(entry.value), "text")
            self._error(f"`metadata` must be a mapping of names to texts, not {kind_}", entry, "metadata")
            return None
        members = self._front.members(entry.value, "metadata")
        values = {key: self._member(key, member) for key, member in members.items()}
        return {key: value for key, value in values.items() if value is not None}

    def _member(self, key: str, entry: FrontmatterField) -> str | None:
        if kind(entry.key) != "str" or not _whole(key):
            kind_ = _KINDS.get(kind(entry.key), "no text")
            self._error(f"`metadata` has a key that is {kind_}, {_named(key)}; write it in quotes", entry, "metadata")
            return None
        at = f"metadata.{key}"
        if kind(entry.value) not in _NUMBERLIKE or not isinstance(entry.value, yaml.ScalarNode):
            return self._text(at, entry, "metadata")
        written: str = entry.value.value
        kind_ = _NUMBERLIKE[kind(entry.value)]
        self._say(
            f"`{shown(at)}` is {kind_} to YAML; write it in quotes: {_quoted(written)}",
            entry,
            "metadata",
            warning=not self._strict,
        )
        return written

    def _unknown(self) -> None:
        for key, entry in self._front.fields.items():
            if key in FIELDS:
                continue
            near = _nearest(key)
            hint = f"; did you mean `{near}`?" if near else ""
            ignored = "" if self._strict else " and is ignored"
            message = f"`{shown(key)}` is not a field of the format{ignored}{hint}"
            self._say(message, entry, key, warning=not self._strict)

    def _required(self, field: str, do: str) -> FrontmatterField | None:
        entry = self._front.fields.get(field)
        if entry is None:
            self._found.append(SkillProblem(message=f"`{field}` is missing; {do}", line=1, field=field))
        return entry

    def _field(self, field: str) -> FrontmatterField | None:
        """Return an optional field, or None if it is missing or empty."""
        entry = self._front.fields.get(field)
        if entry is not None and kind(entry.value) == "null":
            self._warn(f"`{field}` is empty; fill it in or remove it", entry, field)
            return None
        return entry

    def _optional(self, field: str, hint: str = "") -> str | None:
        entry = self._field(field)
        return None if entry is None else self._text(field, entry, hint=hint)

    def _text(self, name: str, entry: FrontmatterField, field: str | None = None, hint: str = "") -> str | None:
        """The value if it is text; otherwise None and an error."""
        node, kind_ = entry.value, kind(entry.value)
        if isinstance(node, yaml.ScalarNode) and kind_ == "str":
            text: str = node.value
            if _whole(text):
                return text
            message = "holds half of a character; remove its `\\u` escape"
        elif kind_ == "null":
            message = "is empty; give it a text"
        elif isinstance(node, yaml.ScalarNode) and kind_ in _NUMBERLIKE:
            message = (
                f"must be text, but YAML reads it as {_NUMBERLIKE[kind_]}; write it in quotes: {_quoted(node.value)}"
            )
        else:
            message = f"must be text, not {_KINDS.get(kind_, kind_)}{hint}"
        self._error(f"`{shown(name)}` {message}", entry, field or name)
        return None

    def _length(self, field: str, text: str, most: int, entry: FrontmatterField) -> None:
        if len(text) > most:
            self._error(f"`{field}` has {len(text)} characters; {most} are allowed", entry, field)

    def _error(self, message: str, entry: FrontmatterField, field: str) -> None:
        self._say(message, entry, field, warning=False)

    def _warn(self, message: str, entry: FrontmatterField, field: str) -> None:
        self._say(message, entry, field, warning=True)

    def _say(self, message: str, entry: FrontmatterField, field: str, *, warning: bool) -> None:
        line = self._front.line(entry.key)  # of the key: an alias's value may stand anywhere
        self._found.append(SkillProblem(message=message, line=line, field=field, warning=warning))


def long_description(text: str) -> str | None:
    """Return the warning about a description that the index cuts, or None."""
    length = len(text.strip())
    if length <= DESCRIPTION_CHARS:
        return None
    return f"`description` has {length} characters; {DESCRIPTION_CHARS} are allowed, and the index cuts it there"


def name_problems(name: str, directory: str) -> list[str]:
    """Return the problems of a name, one sentence each."""
    problems = []
    quoted = _named(name)
    if len(name) > NAME_CHARS:
        problems.append(f"`name` has {len(name)} characters; {NAME_CHARS} are allowed")
    if not _UPPER.isdisjoint(name):
        problems.append(f"`name` {quoted} has upper-case letters; use lower-case ones")
    others = dict.fromkeys(char for char in name if char not in _ALLOWED and char not in _UPPER)
    if others:
        which = " ".join(_named(char) for char in list(others)[:5])
        problems.append(f"`name` {quoted} has characters that are not allowed ({which}); use a-z, 0-9 and hyphens")
    if name.startswith("-"):
        problems.append(f"`name` {quoted} begins with a hyphen; remove it")
    if name.endswith("-"):
        problems.append(f"`name` {quoted} ends with a hyphen; remove it")
    if "--" in name:
        problems.append(f"`name` {quoted} has two hyphens in a row; keep one")
    if name != directory:
        problems.append(f"`name` is {quoted}, but the directory is {_named(directory)}; make them equal")
    return problems


def _named(text: str) -> str:
    return f"'{shown(text)}'"


def _quoted(written: str) -> str:
    return f'"{shown(written)}"'


def _nearest(key: str) -> str | None:
    if len(key) > _LONGEST_GUESS:
        return None
    near = get_close_matches(key.lower().replace("_", "-"), FIELDS, n=1, cutoff=0.75)
    return near[0] if near else None


def _whole(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
