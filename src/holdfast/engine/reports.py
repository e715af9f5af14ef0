"""Break reports on disk: a JSON line for each break in the file of its UTC day, with the unified diff beside it.

If bodies are kept a line has the exact changes: each removed and added piece, with its place. Otherwise it has a note,
and no text of a prompt but the names of tools and skills. Only this user can read the files. Their number is limited;
the oldest are removed first. Several threads and processes may write into one directory. A report that cannot be
written is counted and warned about once; it never affects a request.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core import Finding, TextChange, as_bytes, changes, diff
from holdfast.core.cures import Cure
from holdfast.store import PRIVATE_FILE, Break, make_private_directory

from .byte_diff import NO_DIFFERENCE, ByteDiff

if TYPE_CHECKING:
    from holdfast.config import Config, Settings

try:
    import fcntl
except ImportError:  # no advisory locks here: threads are still kept apart, processes are not
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

WORDS_MASKED = "Words are masked; store.keep_bodies = true shows them in the reports of later breaks."
KEYS_MASKED = "What looks like a key or a long token is masked."
NOT_ALL = "Only the beginning of what differs is listed."
NOT_AT_HAND = "The request before is not at hand any more: this process has not sent it, or it was long ago."

_LONGEST = 512  # characters of a name in a line
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.jsonl")
_OWN = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A break as a line. `before` and `after` are digests of the block's two texts; `was` and `now` a few redacted
    characters of them at `offset`; `changes` all differences in the block, `masked` describes what is not shown of
    them, `note` why they are incomplete; `diff` is the file beside it."""

    id: str
    at: str
    tenant: str
    session: str
    lane: str
    call: str
    model: str
    tokens: int
    dollars: str
    expected: int
    read: int
    cause: str | None = None
    reason: str | None = None
    also: tuple[str, ...] = ()
    section: str | None = None
    what: str | None = None
    setting: str | None = None
    path: str | None = None
    offset: int | None = None
    owner: str | None = None
    behind: int | None = None
    before: str | None = None
    after: str | None = None
    was: str | None = None
    now: str | None = None
    changes: tuple[TextChange, ...] = ()
    masked: str | None = None
    note: str | None = None
    cure: str | None = None
    advice: str | None = None
    config: str | None = None
    diff: str | None = None


class Reports:
    """The reports of one directory. `lost` counts those that could not be written."""

    def __init__(self, directory: Path | str, *, keep: int = 1000, keep_bodies: bool = False) -> None:
        self.directory = Path(directory)
        self.lost = 0
        self._keep = keep
        self.keep_bodies = keep_bodies
        self._lock = threading.Lock()
        self._counted: dict[str, tuple[int, int, int]] = {}  # by file: which one it is, its size, the lines in it

    @classmethod
    def configured(cls, config: Config, settings: Settings | None = None) -> Reports:
        """As the settings have it: those of the configuration, or others in its home and workspace."""
        from holdfast.config import KEYS, expand  # here, so that an engine without reports loads no schema

        settings = settings or config.settings
        breaks = settings.cache.breaks
        directory = breaks.dir
        if settings is not config.settings:  # nobody has resolved these
            directory = expand(KEYS["cache.breaks.dir"], directory, home=config.home, user_home=Path.home())
        return cls(config.path(directory), keep=breaks.keep, keep_bodies=settings.store.keep_bodies)

    def write(
        self,
        row: Break,
        finding: Finding,
        *,
        cure: Cure | None = None,
        difference: ByteDiff = NO_DIFFERENCE,
    ) -> Path | None:
        """Write a report; returns the file of its day, None where it could not be written or none are kept.

        The excerpts of `difference.place` are written as they are.
        """
        if self._keep <= 0:
            return None
        day = datetime.fromtimestamp(row.at / 1_000_000, UTC)
        name = f"{day:%Y-%m-%d}"
        text, place = b"", difference.place
        if place is not None:
            unified = diff(difference.before, difference.after, place.offset, keep_bodies=self.keep_bodies)
            text = unified.encode("utf-8", "replace")
        safe_id = re.sub(r"[^A-Za-z0-9_-]", "_", row.id[:64])
        diff_name = f"{name}.{safe_id}.diff" if text else None
        report = _report(row, finding, day, cure, difference, diff_name)
        line = msgspec.json.encode(self._with_changes(report, difference)) + b"\n"
        try:
            with self._lock, self._file_lock():
                if diff_name is not None:
                    _create(self.directory / diff_name, text)
                self._append(f"{name}.jsonl", line)
                self._remove_oldest()
        except OSError as error:
            self._failed(error)
            return None
        return self.directory / f"{name}.jsonl"

    def _with_changes(self, report: Report, difference: ByteDiff) -> Report:
        before, after = difference.before, difference.after
        if difference.place is None:
            return replace(report, note=NOT_AT_HAND) if before is None and after is not None else report
        text_changes = changes(as_bytes(before), as_bytes(after), keep_bodies=self.keep_bodies)
        masked = KEYS_MASKED if text_changes.keys else None
        return replace(
            report,
            changes=text_changes.pieces,
            masked=masked if self.keep_bodies else WORDS_MASKED,
            note=None if text_changes.whole else NOT_ALL,
        )

    @contextmanager
    def _file_lock(self) -> Iterator[None]:
        """Keep other processes out while files are appended to and removed."""
        make_private_directory(self.directory)
        descriptor = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT | _OWN, PRIVATE_FILE)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)  # and with it the lock

    def _append(self, name: str, line: bytes) -> None:
        """All of the line or nothing: what a full disk left of one is cut off again."""
        descriptor = os.open(self.directory / name, os.O_RDWR | os.O_APPEND | os.O_CREAT | _OWN, PRIVATE_FILE)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":  # cut short by a crash
                line = b"\n" + line
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError(f"no room for a break report in {self.directory}")
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)

    def _remove_oldest(self) -> None:
        """Keep the newest: whole days go, and of the day that is cut the first lines, each with its diff."""
        days = sorted(path.name for path in self.directory.iterdir() if _DAY.fullmatch(path.name))
        counts = {name: self._lines(name) for name in days}
        self._counted = {name: self._counted[name] for name in days}
        surplus = sum(counts.values()) - self._keep
        for name in days:
            if surplus <= 0:
                return
            gone = min(surplus, counts[name])
            self._cut(name, gone, whole=gone == counts[name])
            surplus -= gone

    def _lines(self, name: str) -> int:
        """Return the number of lines of a file, reading only what was appended since the last count."""
        path = self.directory / name
        same, size, lines = self._counted.get(name, (0, 0, 0))
        status = path.stat()
        if status.st_ino != same or status.st_size < size:  # another process has cut it
            size, lines = 0, 0
        if status.st_size > size:
            with path.open("rb") as file:
                file.seek(size)
                lines += file.read(status.st_size - size).count(b"\n")
        self._counted[name] = (status.st_ino, status.st_size, lines)
        return lines

    def _cut(self, name: str, count: int, *, whole: bool) -> None:
        path = self.directory / name
        lines = path.read_bytes().split(b"\n")
        if whole:
            path.unlink(missing_ok=True)
        else:
            temporary = self.directory / f".{name}.new"
            temporary.unlink(missing_ok=True)
            _create(temporary, b"\n".join(lines[count:]))
            temporary.replace(path)
        self._counted.pop(name, None)
        for line in lines if whole else lines[:count]:
            diff_name = _diff_of(line)
            if diff_name is not None:
                (self.directory / diff_name).unlink(missing_ok=True)

    def read(self, id: str, at: datetime) -> Report | None:
        """The report of a break by its id and time, if it is still there."""
        line = b'{"id":%s,' % msgspec.json.encode(_short(id))
        try:
            with (self.directory / f"{at.astimezone(UTC):%Y-%m-%d}.jsonl").open("rb") as file:
                report_line = next((each for each in file if each.startswith(line)), None)
            return None if report_line is None else msgspec.json.decode(report_line, type=Report)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def forget(self, tenant: str) -> int:
        """Remove all reports of a tenant, with their diffs, and diffs that no report names; how many there were."""
        if not self.directory.is_dir():
            return 0
        gone, named = 0, set()
        with self._lock, self._file_lock():
            for path in [each for each in self.directory.iterdir() if _DAY.fullmatch(each.name)]:
                lines = path.read_bytes().splitlines()
                left = [line for line in lines if _tenant_of(line) != _short(tenant)]
                named |= {_diff_of(line) for line in left}
                if len(left) < len(lines):
                    gone += len(lines) - len(left)
                    self._rewrite(path, left)
            for path in self.directory.glob("*.diff"):
                if path.name not in named:
                    path.unlink(missing_ok=True)
        return gone

    def _rewrite(self, path: Path, lines: list[bytes]) -> None:
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        _create(temporary, b"".join(line + b"\n" for line in lines))
        temporary.replace(path)
        self._counted.pop(path.name, None)

    def _failed(self, error: OSError) -> None:
        self.lost += 1
        if self.lost == 1:
            logger.warning(
                "a break report could not be written into %s (%s): make it writable or set cache.breaks.dir; "
                "further ones are counted in silence",
                self.directory,
                error.strerror or error,
            )


def _report(
    row: Break,
    finding: Finding,
    day: datetime,
    cure: Cure | None,
    difference: ByteDiff,
    diff_name: str | None,
) -> Report:
    divergence, place = finding.divergence, difference.place
    return Report(
        id=_short(row.id),
        at=day.isoformat(timespec="microseconds"),
        tenant=_short(row.tenant),
        session=_short(row.session),
        lane=_short(row.lane),
        call=_short(row.call),
        model=_short(row.model),
        tokens=row.tokens,
        dollars=f"{row.dollars:f}",
        expected=finding.expected,
        read=finding.read,
        cause=row.cause,
        reason=row.reason,
        also=finding.also,
        section=divergence.section if divergence is not None else None,
        what=divergence.what if divergence is not None else None,
        setting=divergence.setting if divergence is not None else None,
        path=None if row.path is None else _short(row.path),
        offset=row.offset,
        owner=None if row.owner is None else _short(row.owner),
        behind=divergence.behind if divergence is not None else None,
        before=_digest(difference.before),
        after=_digest(difference.after),
        was=place.before if place is not None else None,
        now=place.after if place is not None else None,
        cure=cure.name if cure is not None else row.cure,
        advice=cure.sentence if cure is not None else None,
        config=cure.setting if cure is not None else None,
        diff=diff_name,
    )


def _digest(text: str | bytes | None) -> str | None:
    return None if text is None else sha256(as_bytes(text)).hexdigest()


def _short(text: str) -> str:
    return text[:_LONGEST].encode("utf-8", "replace").decode()


def _create(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _OWN, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


class _TenantName(Struct):
    tenant: str | None = None


class _DiffName(Struct):
    diff: str | None = None


def _tenant_of(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(line, type=_TenantName).tenant
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _diff_of(line: bytes) -> str | None:
    """The diff that belongs to a line; a name that would lead elsewhere is none of ours."""
    try:
        name = msgspec.json.decode(line, type=_DiffName).diff
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return name if name is not None and re.fullmatch(r"[0-9-]{10}\.[A-Za-z0-9_-]{1,64}\.diff", name) else None
