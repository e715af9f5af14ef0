"""May a tool do this? The user's answer: once, for the session, always, or no and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from holdfast.tools import Decision, Question, Scope

from .words import clean

SCOPES: Mapping[str, Scope] = {
    "y": "once",
    "yes": "once",
    "s": "session",
    "session": "session",
    "a": "always",
    "always": "always",
}
QUESTION = "Allow? y once, s this session, a always here, n no: "
REASON = "Why not? The model is told; Enter for no reason: "
PREVIEW = 12
"""Lines of a text that are shown of what a tool is given."""


def lines_of(question: Question) -> Iterator[str]:
    """What is asked: all that it says, and the beginnings of the texts that it does not."""
    yield from clean(question.text).split("\n")
    for name, value in question.input.items():
        if isinstance(value, str) and value.strip() and value not in question.text:
            yield from _beginning(name, value)


def _beginning(name: str, value: str) -> Iterator[str]:
    lines = clean(value).rstrip("\n").split("\n")
    if len(lines) == 1 and len(lines[0]) <= 60:
        yield f"  {clean(name)}: {lines[0]}"
        return
    yield f"  {clean(name)}:"
    for line in lines[:PREVIEW]:
        yield f"  | {line}"
    if len(lines) > PREVIEW:
        yield f"  | … {len(lines) - PREVIEW:,} more lines"


def asked(question: Question, show: Callable[[list[str]], None], read: Callable[[str], str]) -> Decision:
    """Ask until there is an answer; no input left is a no."""
    show(list(lines_of(question)))
    try:
        while True:
            word, _, rest = read(QUESTION).strip().partition(" ")
            word = word.lower()
            if word in SCOPES:
                return Decision(True, SCOPES[word])
            if word in ("n", "no"):
                return refusal(rest.strip() or read(REASON).strip())
    except EOFError:
        return refusal("")


def refusal(reason: str) -> Decision:
    return Decision(False, why=f"The user did not allow it: {reason}" if reason else "The user did not allow it.")


def nobody(say: Callable[[str], None]) -> Callable[[Question], Decision]:
    """For where nobody can be asked."""

    def refused(question: Question) -> Decision:
        say(f"{question.tool} was refused: nobody can be asked here; --yes allows all tools ({question.text})")
        return Decision(False, why=f"{question.tool} needs the user's consent, and nobody can be asked here.")

    return refused
