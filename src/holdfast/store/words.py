"""Texts as the words that the search index is given.

Every word is made plain ASCII here and carries the number of its tenant, so that the index holds nothing but what we
put there, whatever SQLite knows of Unicode or takes for syntax. The words of two tenants are never the same word: how
often one says it neither weighs nor slows what another looks for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_LONGEST = 40  # characters of a word; what is longer is no word, and is found by its beginning
_MARKS = re.compile("[\\u0300-\\u036f]")
# Without spaces between words, or with endings written to them: every character is a word, and what is looked for are
# two of them side by side.
_RUN = "\\uac00-\\ud7a3\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\U00020000-\\U0003ffff"
_token = re.compile(f"[{_RUN}]|[^\\W_{_RUN}]+").findall
_alone = re.compile(f"[{_RUN}]").match
_name = re.compile("[^\\W_]+").findall
_CAPITAL = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLAIN = str.maketrans("abcdef", "ghjkmn")  # hexadecimal digits without vowels, which no stemming takes for an ending


def indexed(tenant: int, text: str) -> str:
    """A text as the words of its tenant, in their order. Behind them the parts of names with capitals inside, so that
    `retry limit` finds retryLimit, and what stood side by side still does."""
    return " ".join(_marked(tenant, token) for token in (*_tokens(text), *_tokens(" ".join(_inner(text)))))


def phrases(tenant: int, word: str) -> list[str]:
    """What to look for where somebody asks for this word, in the syntax of the index: nothing where no letter and no
    digit is in it, one phrase where it is one name of several parts."""
    found: list[list[str]] = []
    run: list[str] = []
    for token in _tokens(word):
        if run and bool(_alone(token)) != bool(_alone(run[-1])):
            found += _parts(run)
            run = []
        run.append(token)
    found += _parts(run)
    return [f'"{" ".join(_marked(tenant, token) for token in part)}"' for part in found]


def _parts(run: list[str]) -> list[list[str]]:
    if not run or not _alone(run[0]) or len(run) < 3:
        return [run] if run else []
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _inner(text: str) -> Iterator[str]:
    for name in _name(text):
        parts = _CAPITAL.split(name)
        if len(parts) > 1:
            yield from parts


def _tokens(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", _MARKS.sub("", unicodedata.normalize("NFKD", text))).casefold()
    return [token[:_LONGEST] for token in _token(plain)]


def _marked(tenant: int, token: str) -> str:
    if token.isascii():
        return f"{tenant}x{token}"
    return f"{tenant}z{token.encode('utf-8', 'surrogatepass').hex().translate(_PLAIN)}"
