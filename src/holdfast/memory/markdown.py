"""Entries as a Markdown file and back: made to be read, compared in git and edited by hand.

Every entry is a section: its title as a heading, its fields as a list, an empty line, its content as it is. Only a line
of the content that would begin another section gets a backslash before it, and one that begins with such a backslash
gets one more: so every content comes back byte for byte. The order does not depend on the order of what is given.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.store import VersionConflictError
from holdfast.store import operations as op
from holdfast.tools import shown

from .checks import category_name, checked, checked_source, project_name, visible
from .entries import KnowledgeEntry
from .ids import FORM, is_id, tidy
from .knowledge import EACH_S, WRITE_TIMEOUT_S, Knowledge, same, stored
from .texts import one_line, whole

HEADING = "# Holdfast memory"
NOTE = (
    "<!-- `holdfast memory import` reads this file again. Entries without an id are new. In an entry's text, a line "
    "that begins with ## has a backslash before it. -->"
)
EVERYWHERE = "everywhere"
FIELDS = ("id", "category", "project", "confidence", "source", "created", "updated")

_BEGINS = re.compile(r"(\\*)##(?=\s|$)")
"""The beginning of a section, or a line that could be taken for one."""
_FIELD = re.compile(r" {0,3}[-*+] +([A-Za-z_ ]{1,40}?) *:(?: +(.*))?")
"""As Markdown has it: what tidies up files may indent a list, and write it with another sign."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""What can be written as a date, in microseconds: a clock that was wrong once must not make memory unreadable."""
_MOST_TOLD = 20
"""Mistakes, or entries, that an error names at most."""
_COMPARED = ("category", "project", "confidence", "source")


_Mistake = tuple[int, str]
"""A line number and its error."""


class Imported(Struct, frozen=True, kw_only=True):
    """The ids of a file's entries by outcome, in the file's order. `restored` were forgotten and hold again, as in the
    file."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()


class Planned(Struct, frozen=True, kw_only=True):
    """What a file's entries will become, and those to write, each with the revision it replaces (0 if new). `newer` are
    ids of those changed here after the file was written."""

    imported: Imported
    drafts: tuple[tuple[KnowledgeEntry, int], ...]
    newer: tuple[str, ...]


class Section(Struct, frozen=True, kw_only=True):
    """An entry of a file, the line it begins at, and the fields that it names."""

    line: int
    title: str
    content: str
    fields: Mapping[str, Any]

    @property
    def id(self) -> str | None:
        return self.fields.get("id")


def exported(entries: Sequence[KnowledgeEntry]) -> str:
    """A file with these entries, without those that are forgotten: the same for the same entries."""
    current = [entry for entry in entries if entry.forgotten_at is None]
    current.sort(key=lambda each: (each.project or "", each.category, each.title.casefold(), each.id))
    return "\n\n".join((f"{HEADING}\n\n{NOTE}", *map(_section, current))) + "\n"


def import_(knowledge: Knowledge, text: str | bytes, *, source: str = "import", force: bool = False) -> Imported:
    """Import a file made by `exported` and perhaps edited: all of it, or nothing if a part is invalid.

    An entry with a known id is edited if it differs, and restored if it was forgotten; others are added. A missing
    field stays unchanged. One without an id that exists literally is not added again. Changes made here after the
    file's time are replaced by `force` only.
    """
    plan = planned(knowledge, text, source=source)
    if plan.newer and not force:
        were = "was" if len(plan.newer) == 1 else "were"
        raise HoldfastError(
            f"{_listed(plan.newer)} {were} changed or forgotten here after this file was written, and importing it "
            "would undo that; export again and make your changes there, or use force (--force). Nothing was imported."
        )
    _write(knowledge, plan.drafts, checked_source(source))
    return plan.imported


def planned(knowledge: Knowledge, text: str | bytes, *, source: str = "import") -> Planned:
    """What `import_` would do, without doing it."""
    by, (sections, mistakes) = checked_source(source), _read(text)
    entries = {entry.id: entry for entry in knowledge.entries(projects="all", forgotten=True)}
    by_text: dict[tuple[str, str], list[KnowledgeEntry]] = defaultdict(list)
    for each in entries.values():
        by_text[each.title, each.content].append(each)
    taken = {*entries, *(section.id for section in sections)}
    drafts: list[tuple[KnowledgeEntry, int]] = []
    ids_by_outcome: dict[str, list[str]] = {name: [] for name in Imported.__struct_fields__}
    newer: list[str] = []
    for section in sections:
        before = entries.get(section.id) if section.id else _literal_match(section, by_text, knowledge.project)
        if before is not None and before.forgotten_at is None and (not section.id or _equals(before, section)):
            ids_by_outcome["unchanged"].append(before.id)
            continue
        try:
            entry = _draft(knowledge, section, before, by, taken)
        except HoldfastError as error:
            mistakes.append((section.line, str(error)))
            continue
        taken.add(entry.id)
        outcome = _outcome(before, entry)
        ids_by_outcome[outcome].append(entry.id)
        if outcome == "unchanged":
            continue
        drafts.append((entry, 0 if before is None else before.revision))
        if before is not None and _changed_since(knowledge, before, section.fields.get("updated")):
            newer.append(before.id)
    _refuse(mistakes)
    imported = Imported(**{name: tuple(ids) for name, ids in ids_by_outcome.items()})
    return Planned(imported=imported, drafts=tuple(drafts), newer=tuple(newer))


def _changed_since(knowledge: Knowledge, entry: KnowledgeEntry, at: int | None) -> bool:
    """Whether an entry was changed after this time otherwise than by an import: a file may be edited and imported again
    and again, and only its export would renew the time in it."""
    if at is None or entry.updated_at <= at:
        return False
    return any(each.at > at and each.operation != "import" for each in knowledge.history(entry.id))


def parsed(text: str | bytes) -> list[Section]:
    """The sections of a file; HoldfastError with the line of everything in it that cannot be read."""
    sections, mistakes = _read(text)
    _refuse(mistakes)
    return sections


def _read(text: str | bytes) -> tuple[list[Section], list[_Mistake]]:
    mistakes: list[_Mistake] = []
    lines = _text(text).split("\n")
    if lines[0].rstrip() != HEADING:
        _refuse([(1, f"this is no export of memory, which begins with '{HEADING}'")])
    starts = [at for at, line in enumerate(lines) if at and _is_heading(line)]
    for at in range(1, starts[0] if starts else len(lines)):
        line = lines[at].strip()
        if line and not (line.startswith("<!--") and line.endswith("-->")):
            mistakes.append((at + 1, "this stands before the first entry; an entry begins with '## ' and its title"))
            break
    sections = [_parsed(lines[start:end], start + 1, mistakes) for start, end in pairwise([*starts, len(lines)])]
    seen: dict[str, int] = {}
    for section in sections:
        if section.id is not None and (first := seen.setdefault(section.id, section.line)) != section.line:
            mistakes.append(
                (section.line, f"the id {section.id} stands at line {first} already; leave one of the two out")
            )
    return sections, mistakes


def _refuse(mistakes: list[_Mistake]) -> None:
    """Raise all mistakes of a file, in the order of its lines."""
    problems = [
        f"line {line}: {problem.removesuffix('.').removesuffix('; nothing was stored')}"
        for line, problem in sorted(mistakes)
    ]
    if not problems:
        return
    if len(problems) == 1:
        raise HoldfastError(f"{problems[0]}; nothing was imported.")
    more = [f"and {len(problems) - _MOST_TOLD:,} more"] if len(problems) > _MOST_TOLD else []
    listed = "\n".join((*problems[:_MOST_TOLD], *more))
    raise HoldfastError(f"nothing was imported: {len(problems):,} things are wrong\n{listed}")


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MOST_TOLD:,} more" if len(ids) > _MOST_TOLD else ""
    return ", ".join(ids[:_MOST_TOLD]) + more


def _section(entry: KnowledgeEntry) -> str:
    fields = {
        "id": entry.id,
        "category": _quoted(entry.category),
        "project": EVERYWHERE if entry.project is None else _quoted(entry.project),
        "confidence": repr(entry.confidence),
        "source": _quoted(entry.source),
        "created": _time(entry.created_at),
        "updated": _time(entry.updated_at),
    }
    content = "\n".join(f"\\{line}" if _BEGINS.match(line) else line for line in entry.content.split("\n"))
    listed = "\n".join(f"- {name}: {value}" for name, value in fields.items())
    return f"## {entry.title}\n\n{listed}\n\n{content}"


def _parsed(lines: Sequence[str], number: int, mistakes: list[_Mistake]) -> Section:
    """A section from its heading to the line before the next one."""
    first = next((at for at, line in enumerate(lines) if at and line.strip()), len(lines))
    fields, at = _fields(lines, first, number, mistakes)
    if first < at < len(lines):
        if lines[at].strip():
            mistakes.append((number + at, "an empty line has to stand between the fields of an entry and its text"))
        else:
            at += 1
    content = list(lines[at:])
    if content and not content[-1]:
        content.pop()  # the line before the next heading, or the end of the file
    plain = [line[1:] if (match := _BEGINS.match(line)) and match[1] else line for line in content]
    return Section(line=number, title=lines[0][2:].strip(), content="\n".join(plain), fields=fields)


def _fields(lines: Sequence[str], at: int, number: int, mistakes: list[_Mistake]) -> tuple[dict[str, Any], int]:
    """The fields that stand from a line on, and the line behind them."""
    fields: dict[str, Any] = {}
    while at < len(lines) and (match := _FIELD.fullmatch(lines[at].rstrip())):
        name, value = match[1].lower(), (match[2] or "").strip()
        try:
            if name not in FIELDS:
                raise ValueError(
                    f"there is no field '{shown(name)}'; fields are {', '.join(FIELDS)}, and an empty line parts them "
                    "from the text"
                )
            if name in fields:
                raise ValueError(f"the field {name} stands here twice")
            try:
                fields[name] = _READ[name](value)
            except ValueError as error:
                raise ValueError(f"the {name} is '{shown(value)}'; {error}") from None
        except ValueError as error:
            mistakes.append((number + at, str(error)))
        at += 1
    return fields, at


def _is_heading(line: str) -> bool:
    match = _BEGINS.match(line)
    return match is not None and not match[1]


def _text(text: str | bytes) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise HoldfastError(
                f"line {line}: this is no UTF-8 text; save the file as UTF-8; nothing was imported."
            ) from error
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _draft(
    knowledge: Knowledge, section: Section, before: KnowledgeEntry | None, source: str, taken: Container[str | None]
) -> KnowledgeEntry:
    fields, now = section.fields, knowledge.now()
    if before is not None:
        entry = replace(before, updated_at=max(now, before.updated_at), forgotten_at=None)
    else:
        updated = min(fields.get("updated", now), now)  # no entry is of tomorrow
        entry = KnowledgeEntry(
            tenant=knowledge.tenant,
            id=section.id or next(id_ for id_ in iter(knowledge.new_id, "") if id_ not in taken),
            category="decision",
            title="",
            content="",
            project=knowledge.project,
            source=source,
            created_at=min(fields.get("created", updated), updated),
            updated_at=updated,
        )
    parts = {name: fields[name] for name in _COMPARED if name in fields}
    return checked(replace(entry, title=section.title, content=section.content, **parts))


def _equals(entry: KnowledgeEntry, section: Section) -> bool:
    """Whether a section equals a stored entry, which is not checked again."""
    fields = section.fields
    if (entry.title, entry.content) != (section.title, section.content):
        return False
    return all(name not in fields or getattr(entry, name) == fields[name] for name in _COMPARED)


def _literal_match(
    section: Section, by_text: Mapping[tuple[str, str], Sequence[KnowledgeEntry]], project: str | None
) -> KnowledgeEntry | None:
    """The stored entry whose text a section without an id has to the letter: a file may be imported twice."""
    fields = {"project": project, **section.fields}
    for name, stored_as in (("category", category_name), ("project", project_name)):
        if fields.get(name) is not None:
            fields[name] = stored_as(fields[name])
    title, content = one_line(visible(section.title)), whole(visible(section.content))
    stored_section = Section(line=section.line, title=title, content=content, fields=fields)
    alike = by_text.get((title, content), ())
    return next((each for each in alike if each.forgotten_at is None and _equals(each, stored_section)), None)


def _outcome(before: KnowledgeEntry | None, entry: KnowledgeEntry) -> str:
    if before is None:
        return "added"
    if before.forgotten_at is not None:
        return "restored"
    return "unchanged" if same(before, entry) and before.source == entry.source else "changed"


def _write(knowledge: Knowledge, drafts: Sequence[tuple[KnowledgeEntry, int]], by: str) -> None:
    if not drafts:
        return
    with knowledge.store.batch() as batch:
        written = [
            batch.write(op.PutKnowledge(entry, expected=expected, operation="import", by=by))
            for entry, expected in drafts
        ]
    try:
        for each in written:
            stored(each, WRITE_TIMEOUT_S + EACH_S * len(drafts))
    except VersionConflictError as error:
        raise HoldfastError(f"nothing was imported, because {error}; import the file again.") from error


def _quoted(text: str) -> str:
    """A value of a field; as JSON where it could be taken for something else."""
    return json.dumps(text, ensure_ascii=False) if text.lower() == EVERYWHERE or text[:1] in ('"', "") else text


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        text = json.loads(value)
    except ValueError:
        raise ValueError("a value that begins with a quotation mark has to be a JSON string") from None
    return str(text)


def _time(at: int) -> str:
    return f"{(_EPOCH + timedelta(microseconds=max(_FIRST, min(at, _LAST)))).isoformat(timespec='microseconds')[:-6]}Z"


def _read_time(value: str) -> int:
    try:
        time = datetime.fromisoformat(value)
        return (time.replace(tzinfo=time.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise ValueError("give a time such as 2026-01-31T09:30:00Z, or leave it out") from None


def _read_id(value: str) -> str:
    id_ = tidy(value)
    if not is_id(id_):
        raise ValueError(f"ids are {FORM}; leave it out and one is made")
    return id_


def _read_confidence(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError("give a number from 0 to 1") from None


def _read_project(value: str) -> str | None:
    return None if value.lower() == EVERYWHERE else _unquoted(value)


_READ: Mapping[str, Callable[[str], Any]] = {
    "id": _read_id,
    "category": _unquoted,
    "project": _read_project,
    "confidence": _read_confidence,
    "source": _unquoted,
    "created": _read_time,
    "updated": _read_time,
}
