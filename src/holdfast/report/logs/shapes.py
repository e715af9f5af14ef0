"""Shape traces: recorded sessions without their texts, one request per line, with sizes and bills.

The lines are those that `trace_files` reads and writes as a whole; here they come one at a time, and an unreadable line
loses only itself. There are no bodies: only usage can prove findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.records import Usage
from holdfast.wire import LARGEST

from .documents import first_objects
from .lines import lines
from .members import shown
from .records import Advance, BrokenSource, LoggedRequest, Record
from .trace_files import ShapeLine, ShapeUsage

SIDE_CHAIN = "sidechain"
_NEEDED = ("session", "request", "model", "added")
_BOM = b"\xef\xbb\xbf"
_line = msgspec.json.Decoder(ShapeLine).decode


def read(path: Path, advance: Advance) -> Iterator[Record]:
    """One request for each line; without usage it counts nothing, but it counts."""
    for numbered in lines(path, advance):
        if isinstance(numbered, BrokenSource):
            yield numbered
            continue
        place, text = numbered
        try:
            line = _line(text.removeprefix(_BOM))
        except msgspec.ValidationError as error:
            yield BrokenSource(place, f"no request of a shape trace ({error})")
        except (msgspec.DecodeError, UnicodeError) as error:
            yield BrokenSource(place, f"not JSON ({error})")
        except RecursionError:
            yield BrokenSource(place, "nested too deeply to be read")
        else:
            if line.usage is not None and not _possible(line.usage):
                yield BrokenSource(place, "no request of a shape trace (more tokens than any prompt has)")
                continue
            yield LoggedRequest(
                session=shown(line.session),
                source=place,
                model=shown(line.model),
                agent=SIDE_CHAIN if line.sidechain else "",
                at=line.at,
                first_token_at=line.first_token_at,
                usage=None if line.usage is None else _billed(line.usage),
                reset=shown(line.reset) if line.reset else None,
                added=line.added,
            )


def is_mine(path: Path, start: bytes) -> bool:
    """Return whether the first record is one of a shape trace."""
    members = next(first_objects(path, start), {})
    return all(name in members for name in _NEEDED) and "messages" not in members


def _possible(billed: ShapeUsage) -> bool:
    return max(billed.input, billed.read, billed.write_5m, billed.write_1h, billed.output) < LARGEST


def _billed(billed: ShapeUsage) -> Usage:
    long, short = billed.write_1h, billed.write_5m
    writes: tuple[tuple[str, int], ...] = (("1h", long),) if long else ()
    if short:
        writes = (*writes, ("5m", short))
    return Usage(input=billed.input, read=billed.read, writes=writes, output=billed.output)
