"""YAML and JSON as plain values, each with its line; independent of the meaning of scripts."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml
from msgspec import Struct

from holdfast.errors import HoldfastError

MOST_VALUES = 100_000
"""Aliases can make a small file stand for a huge one; a script this long is a mistake."""

_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch


class Value(Struct, frozen=True):
    """A scalar, a list of Values, or a dict of them by key; `lines` are the lines of a dict's keys.

    `text` is a scalar as written: `say: yes` is the word, and `say: 1.10` has all of its digits.
    """

    value: Any
    line: int
    lines: dict[str, int] = {}
    text: str | None = None

    def plain(self) -> Any:
        """The value without its lines."""
        if isinstance(self.value, dict):
            return {key: inner.plain() for key, inner in self.value.items()}
        if isinstance(self.value, list):
            return [inner.plain() for inner in self.value]
        return self.value


def problem(where: str, line: int, sentence: str) -> HoldfastError:
    """Return an error with the sentence on one line, even if it quotes several."""
    return HoldfastError(f"{where}:{line}: {' '.join(sentence.split())}")


def parse(text: str, where: str) -> Value:
    """The one document in a YAML text."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            return _Walk(where).value(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise problem(where, line, f"the script is not valid YAML ({error.problem}); correct that place") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        sentence = f"the script holds a character that YAML does not allow ({error.reason}); remove it"
        raise problem(where, line, sentence) from error
    except RecursionError as error:
        raise problem(where, 1, "the script is nested too deeply; flatten it") from error
    raise problem(where, 1, "the script is empty; give it a list of `rules`")


class _Walk:
    """Turns YAML nodes into Values, refusing what has no plain form."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.count = 0
        self.open: set[int] = set()

    def value(self, node: yaml.Node) -> Value:
        line = node.start_mark.line + 1
        self.count += 1
        if id(node) in self.open or self.count > MOST_VALUES:
            raise problem(self.where, line, "the script's aliases lead back to themselves or grow without end")
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, line)
            if isinstance(node, yaml.SequenceNode):
                return Value([self.value(item) for item in node.value], line)
            assert isinstance(node, yaml.ScalarNode)  # there is no fourth kind
            return self._scalar(node, line)
        finally:
            self.open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, line: int) -> Value:
        members: dict[str, Value] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            at = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise problem(self.where, at, "a key must be a plain word")
            if key.value in members:
                raise problem(self.where, at, f"the key `{key.value}` stands here a second time; keep one of them")
            members[key.value], lines[key.value] = self.value(value), at
        return Value(members, line, lines)

    def _scalar(self, node: yaml.ScalarNode, line: int) -> Value:
        """Only JSON's own words and numbers are more than text: an input is JSON, and 12:30 or `no` mean themselves."""
        text = _whole(str(node.value))
        if node.style is not None:  # quoted, or a block of text
            return Value(text, line, text=text)
        if text in _WORDS:
            value = _WORDS[text]
            return Value(value, line, text=None if value is None else text)
        if not _number(text):
            return Value(text, line, text=text)
        try:
            number = json.loads(text)
        except ValueError as error:  # more digits than Python converts
            raise problem(self.where, line, f"{text[:40]}… is no number; quote it if it is a text") from error
        if number - number != 0:
            raise problem(self.where, line, f"{text} has no form in JSON; use a finite number")
        return Value(number, line, text=text)


def _whole(text: str) -> str:
    """JSON writes characters beyond the first plane as two escapes, which YAML takes for two characters."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def wrap(thing: object, line: int) -> Value:
    """A Python value as if it had been read from one line."""
    if isinstance(thing, dict):
        members = {str(key): wrap(inner, line) for key, inner in thing.items()}
        return Value(members, line, dict.fromkeys(members, line))
    if isinstance(thing, list | tuple):
        return Value([wrap(inner, line) for inner in thing], line)
    written = str(thing) if isinstance(thing, str | int | float) and not isinstance(thing, bool) else None
    return Value(thing, line, text=written)
