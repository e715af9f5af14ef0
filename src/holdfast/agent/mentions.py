"""A model named at the beginning of a message: `@haiku-4-5 what is this?`.

Only what names exactly one model is taken out of the text; everything else that begins with `@` (a path, a person) is
the user's and stays. Pure: a text and names in, a model and a text out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from holdfast import facts
from holdfast.facts import normalise
from holdfast.tools import DIALECT_OF

_MENTION = re.compile(r"\s*@(\S+)(?:[^\S\n]*\n|[^\S\n]+|\Z)")
_PATH = re.compile(r"[./~\\]|[^:]*[/\\]|.*\.[A-Za-z]{1,5}\Z")
"""`@./notes`, `@src/main.py`, `@README.md`: a file, for which no unknown model is reported."""

_GOES_ON = re.compile(r"-\d{1,2}(?!\w)")
"""A number behind a number is another version: sonnet-5 is not sonnet-5-5."""

_SHOWN = 4


class Mention(Struct, frozen=True, kw_only=True):
    """`model` is None where none was named; then the text is as it was, and `notice` says why if it looked like one."""

    model: str | None = None
    text: str
    notice: str = ""


def known_models() -> tuple[str, ...]:
    """Every model that can be named, as provider:name; those that can be asked directly come first."""
    table = facts.default()
    refs = [each.ref for provider in _providers() for each in table.models(provider) if not each.ref.endswith("*")]
    return tuple(refs)


def _providers() -> list[str]:
    reachable = [name for name in facts.default().providers() if name in DIALECT_OF]
    return sorted(reachable, key=lambda name: name == "openrouter")


def parse_mention(text: str, models: Sequence[str], preferred: Sequence[str] = ()) -> Mention:
    """The model that a message begins with, and the text without it. `preferred` decides between several that fit: the
    models this user has configured."""
    match = _MENTION.match(text)
    if match is None:
        return Mention(text=text)
    word = match[1].rstrip(",:;!?")
    if word.endswith("."):
        word = word.rstrip(".")
    fits = fitting(word, models, preferred)
    own = [model for model in fits if model in preferred]
    if len(fits) > 1 and len(own) == 1:
        fits = own
    if len(fits) == 1:
        rest = text[match.end() :]
        if rest.strip():
            return Mention(model=fits[0], text=rest)
        return Mention(text=text, notice=f"{fits[0]} was asked nothing; write the question behind its name.")
    if fits:
        return Mention(text=text, notice=f"@{word} may be one of {some(fits)}; it stays in the text.")
    if not word or _PATH.match(word):
        return Mention(text=text)
    near = meant(word)
    hint = f" Did you mean {near}?" if near else ""
    return Mention(text=text, notice=f"@{word} names no model that is known; it stays in the text.{hint}")


def some(models: Sequence[str]) -> str:
    """The first few of them, to be shown."""
    return ", ".join(models[:_SHOWN]) + (" …" if len(models) > _SHOWN else "")


def fitting(word: str, models: Sequence[str], preferred: Sequence[str] = ()) -> list[str]:
    """The models a word may mean: by its whole name, else by a part of it. Without a provider, models that are reached
    by way of another one (OpenRouter) are not meant, unless they are configured."""
    provider, colon, name = word.lower().partition(":")
    if not colon:
        provider, name = "", word.lower()
    every = dict.fromkeys((*preferred, *models))
    if provider:
        among = [ref for ref in every if ref.partition(":")[0] == provider]
    else:
        among = [ref for ref in every if ref in preferred or not ref.startswith("openrouter:")]
    if "/" in name:  # a vendor's path has to be named in full: without a provider it is a file's
        return [ref for ref in among if provider and ref.partition(":")[2] == name]
    pattern = normalise(name)
    if not pattern:
        return []
    whole = [ref for ref in among if _name(ref) == pattern]
    if len(whole) == 1 and f"{whole[0].partition(':')[0]}:{name}".startswith(whole[0]):
        return [f"{whole[0].partition(':')[0]}:{name}"]  # a date at its end asks for that very snapshot
    if whole:
        return whole
    return [ref for ref in among if _is_part(pattern, _name(ref))]


def meant(word: str) -> str:
    """The model, or models, that a misspelt name or part of a name stands for; empty where nothing is like it."""
    near = facts.default().nearest(word)
    if near is not None:
        return near
    models = known_models()
    parts = {part for ref in models for part in _name(ref).split("-") if part.isalpha()}
    close = get_close_matches(normalise(word), parts, n=1, cutoff=0.75)
    return some(fitting(close[0], models)) if close else ""


def _name(ref: str) -> str:
    return normalise(ref.partition(":")[2])


def _is_part(part: str, name: str) -> bool:
    """Return whether the part matches whole words of the name."""
    for match in re.finditer(re.escape(part), name):
        start, end = match.span()
        begins = start == 0 or name[start - 1] == "-"
        ends = end == len(name) or (name[end] == "-" and not (part[-1].isdigit() and _GOES_ON.match(name, end)))
        if begins and ends:
            return True
    return False
