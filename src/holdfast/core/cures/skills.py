"""Faults of skills: a list of them, or a body put in with it, that changed inside the prefix. Each names the skills."""

from __future__ import annotations

from ..skill_texts import SkillChange, skill_change
from .cure_case import REPAIR, WHOLE, Case, Cure, text_of

ADDED, REMOVED, CHANGED, BODY = "skill_added", "skill_removed", "skill_changed", "preloaded_skill_changed"
NAMES = frozenset((ADDED, REMOVED, CHANGED, BODY))
_NAMED = 3  # skills that are named of each kind; the others are counted

_KEEP = "keep the list that a session began with, and change skills between sessions"


def change(case: Case) -> Cure | None:
    """Return the cure for a change in the list or in a body whose end is known."""
    skills = _change(case)
    if skills is None or skills.open:
        return None
    return _of_list(case, skills) if skills.body is None else _of_bodies(case, skills)


def last_body(case: Case) -> Cure | None:
    """Asked after the general ones: a clock behind the last body is a clock."""
    skills = _change(case)
    return None if skills is None or not skills.open else _of_bodies(case, skills)


def skill_owner(case: Case, cure: Cure) -> str | None:
    """Whose the block is where a cure of these was given: `skills-index`, or `skill:` and its name."""
    skills = _change(case) if cure.name in NAMES else None
    return None if skills is None else skills.owner


def _of_list(case: Case, skills: SkillChange) -> Cure:
    came, left = ("added", "removed") if skills.beyond is None else ("now listed", "no longer listed")
    kinds = (
        (came, skills.added),
        (left, skills.removed),
        ("new description", skills.described),
        ("now preloaded", skills.preloaded),
        ("no longer preloaded", skills.unloaded),
    )
    what = [f"{kind}: {_named(names)}" for kind, names in kinds if names]
    if skills.beyond is not None and skills.beyond[0] != skills.beyond[1]:
        what.append(f"left out: {skills.beyond[1]} skills instead of {skills.beyond[0]}")
    advice = _KEEP
    if skills.described:
        advice += "; descriptions stand in every prompt and bodies do not, so what changes often belongs into the body"
    elif not skills.names:
        advice = f"skills were added or removed beyond `skills.index_chars`; {_KEEP}"
    sentence = f"The list of skills changed at {case.where} ({'; '.join(what)}) and everything behind it was lost"
    at_once = "read the skills once when a conversation begins, and send that list to its end."
    return Cure(_name(skills), f"{sentence}: {advice}.", REPAIR, f"{sentence}: {at_once}")


def _of_bodies(case: Case, skills: SkillChange) -> Cure:
    kinds = (
        ("changed", skills.edited),
        ("now preloaded", skills.preloaded),
        ("no longer preloaded", skills.unloaded),
    )
    what = "; ".join(f"{kind}: {_named(names)}" for kind, names in kinds if names)
    which = "What stands under the heading of a preloaded skill" if skills.open else "The bodies of preloaded skills"
    sentence = f"{which} changed at {case.where} ({what}) and everything behind it was lost"
    return Cure(
        BODY,
        f"{sentence}: preloaded bodies are part of the prompt, so edit them between sessions.",
        REPAIR,
        f"{sentence}: read a body once when a conversation begins, and send it to its end.",
    )


def _change(case: Case) -> SkillChange | None:
    """Of the block at the divergence. One that came or went as a whole is not compared with what stands there now."""
    divergence = case.finding.divergence
    if divergence is None or divergence.section != "system":
        return None
    old = "" if divergence.what == "inserted" else _text(case.before)
    new = "" if divergence.what == "removed" else _text(case.after)
    comparable = divergence.what in ("changed", "inserted", "removed")
    return skill_change(old, new) if comparable and old is not None and new is not None and old != new else None


def _text(content: bytes | None) -> str | None:
    return None if content is None or len(content) > WHOLE else text_of(content)


def _name(skills: SkillChange) -> str:
    if skills.described or skills.preloaded or skills.unloaded:
        return CHANGED
    if skills.beyond is not None:
        more = len(skills.added) + skills.beyond[1] - len(skills.removed) - skills.beyond[0]
        return ADDED if more > 0 else REMOVED if more else CHANGED
    return CHANGED if skills.added and skills.removed else ADDED if skills.added else REMOVED


def _named(names: tuple[str, ...]) -> str:
    listed = ", ".join(names[:_NAMED])
    return listed if len(names) <= _NAMED else f"{listed} and {len(names) - _NAMED} more"
