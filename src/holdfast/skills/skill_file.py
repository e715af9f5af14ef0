"""The files of a skill: a SKILL.md with all its problems, the files beside it, and links, which are followed only into
a root. Bodies name those files relative to their directory, and nothing else lists them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from holdfast.facts import heuristic_tokens
from holdfast.tools import mend, open_file, shown

from .fields import FieldCheck
from .frontmatter import Frontmatter
from .skill import BODY_WARN_TOKENS, FILE, Skill, SkillProblem, SkillSource, SkillValidationError

MOST_BYTES = 1_000_000
_MOST_ENTRIES = 20_000
"""Files and directories visited at most."""


class UnusableLinkError(Exception):
    """A link is not followed; the message gives the reason."""


def real_path(link: Path) -> Path:
    try:
        return Path(os.path.realpath(link, strict=True))
    except FileNotFoundError:
        raise UnusableLinkError("its link leads nowhere; remove it or correct it") from None


def check_inside(real: Path, allowed: Set[Path]) -> None:
    """Refuse a link that leads out of the roots."""
    if not lies_in(real, allowed):
        raise UnusableLinkError(
            f"its link leads out of every skills root, to {shown(real)}; copy it, or name a root in skills.roots"
        )


def lies_in(real: Path, directories: Set[Path]) -> bool:
    """Whether a real path is one of these or below one, however many there are."""
    return real in directories or not directories.isdisjoint(real.parents)


def files_of(skill_dir: Path) -> list[Path]:
    """Sorted by name, without those in hidden directories; links are named and not followed."""
    paths = islice(_below(skill_dir), _MOST_ENTRIES)
    return sorted(path for path in paths if path is not None and path != skill_dir / FILE)


def named(path: Path, skill_dir: Path) -> str:
    """A file as a body names it."""
    return mend(path.relative_to(skill_dir).as_posix())


def _below(directory: Path) -> Iterator[Path | None]:
    """Every entry below a directory, however deep: files and links, and None for a directory."""
    waiting = [directory]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                inner = entry.is_dir(follow_symlinks=False)
                if inner and not entry.name.startswith("."):
                    waiting.append(Path(entry.path))
                yield None if inner else Path(entry.path)


def read_skill(text: str, *, skill_dir: Path, source: SkillSource, refuse_long: bool = False) -> Skill:
    """The skill in a text. Fields that the format does not know are ignored; SkillValidationError has every error.
    `refuse_long` makes an error of a description that is too long."""
    front = Frontmatter(text)
    check = FieldCheck(front, skill_dir.name, refuse_long=refuse_long)
    fields = check.fields
    if fields is None:
        raise SkillValidationError([problem for problem in _by_line(check.problems) if not problem.warning])
    return Skill(
        name=fields.name,
        description=fields.description,
        body=front.body,
        source=source,
        skill_dir=skill_dir,
        license=fields.license,
        compatibility=fields.compatibility,
        metadata=None if fields.metadata is None else MappingProxyType(dict(fields.metadata)),
        allowed_tools=fields.allowed_tools,
    )


def problems(
    data: bytes, *, skill_dir: Path, strict: bool = False, refuse_long: bool = False
) -> tuple[SkillProblem, ...]:
    """Errors and warnings of a SKILL.md in the order of its lines. `strict` makes errors of fields that the format does
    not know, of metadata that is not text and of a description that is too long; `refuse_long` only of the last."""
    try:
        front = Frontmatter(decoded(data))
    except SkillValidationError as error:
        return error.problems
    problems_ = FieldCheck(front, skill_dir.name, strict=strict, refuse_long=refuse_long).problems
    return (*_by_line(problems_), *_of_body(front.body))


def _by_line(problems: Iterable[SkillProblem]) -> list[SkillProblem]:
    return sorted(problems, key=lambda problem: problem.line or 0)


def _of_body(body: str) -> list[SkillProblem]:
    tokens = heuristic_tokens(body)
    if not body.strip():
        return [SkillProblem(message="the body is empty; write the instructions below the frontmatter", warning=True)]
    if tokens > BODY_WARN_TOKENS:
        return [SkillProblem(message=long_body(tokens), warning=True)]
    return []


def long_body(tokens: int) -> str:
    return (
        f"the body has about {tokens:,} tokens, more than {BODY_WARN_TOKENS:,}; "
        "move what is not always needed to files beside it"
    )


def decoded(data: bytes) -> str:
    """The text of a SKILL.md, or SkillValidationError."""
    if len(data) > MOST_BYTES:
        raise SkillValidationError([SkillProblem(message=f"the file has more than {MOST_BYTES:,} bytes; shorten it")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        line = before.count(b"\n") + 1
        raise SkillValidationError(
            [SkillProblem(message=f"the file is not UTF-8 from line {line} on; save it as UTF-8", line=line)]
        ) from error


def read_bytes(base: Path, real: Path) -> bytes:
    """A regular file at a real path below a real directory, or as much of it as shows that it is too long."""
    with open_file(base, real.relative_to(base).parts) as file:
        return file.read(MOST_BYTES + 1)


def validate_dir(
    path: Path, *, strict: bool = False, refuse_long: bool = False, allowed: Set[Path] = frozenset()
) -> tuple[SkillProblem, ...]:
    """`problems` of the skill in a directory, which is named by its last part and may be anywhere. A SKILL.md that is a
    link is read only where it leads into that directory or into an `allowed` one, given by its real path."""
    try:
        skill_dir = Path(os.path.abspath(path))  # noqa: PTH100  `resolve` would follow a link and lose the name
        names = os.listdir(skill_dir)  # noqa: PTH208
        if FILE not in names:
            return (SkillProblem(message=_missing(skill_dir, names)),)
        real = real_path(skill_dir / FILE)
        check_inside(real, allowed | {Path(os.path.realpath(skill_dir))})
        data = read_bytes(real.parent, real)
    except UnusableLinkError as error:
        return (SkillProblem(message=str(error)),)
    except NotADirectoryError:
        return (SkillProblem(message=f"{shown(path)} is not a directory; name the one that holds {FILE}"),)
    except (OSError, ValueError) as error:
        return (SkillProblem(message=f"{shown(path)} cannot be read: {reason(error)}"),)
    return problems(data, skill_dir=skill_dir, strict=strict, refuse_long=refuse_long)


def _missing(skill_dir: Path, names: list[str]) -> str:
    other = next((name for name in sorted(names) if name.lower() == FILE.lower()), None)
    if other is not None:
        return f"the file is named {shown(other)}; rename it to {FILE}"
    return f"there is no {FILE} in {shown(skill_dir)}; add one"


def reason(error: OSError | ValueError) -> str:
    """Return the system's error text."""
    return shown((error.strerror if isinstance(error, OSError) else None) or error)
