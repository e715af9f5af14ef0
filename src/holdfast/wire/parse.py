"""The boundary where a client's bytes come in: whatever is wrong with them, the answer is `Unreadable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from . import scan
from .body import Body, Unreadable
from .raw_json import array_of, object_of, string_of

T = TypeVar("T")


class WireError(Struct, frozen=True):
    """An error a provider answered, or one of ours on its way to a client; status 0 inside a stream."""

    status: int
    kind: str
    message: str


def error_of(raw: bytes) -> tuple[dict[str, bytes], str]:
    """The members of an error response's `error`, and its message: the beginning of the body where it has none.

    Gemini answers a stream that is not one of events with an array around the error.
    """
    raw = raw.strip()
    whole = object_of(next(iter(array_of(raw) or ()), raw)) or {}
    error = object_of(whole.get("error", b"")) or {}
    return error, string_of(error.get("message")) or raw[:300].decode("utf-8", "replace")


def guarded(raw: bytes, kind: type[T], build: Callable[[T], Body], shortened: bytes | None = None) -> Body | Unreadable:
    """Decode `raw` as `kind`, or a shortened form of it, and build a Body from it; or say in one sentence why that
    cannot be done."""
    try:
        return build(scan.decode(raw if shortened is None else shortened, kind))
    except msgspec.ValidationError as error:
        return Unreadable(raw, f"the body has an unexpected shape: {error}")
    except msgspec.DecodeError as error:
        return Unreadable(raw, f"the body is not JSON: {error}")
    except UnicodeDecodeError as error:
        return Unreadable(raw, f"the body is not UTF-8: {error.reason}")
    except RecursionError:
        return Unreadable(raw, "the body is nested too deeply to be read")
    except (scan.Misfit, IndexError) as error:
        return Unreadable(raw, f"the body cannot be addressed: {error}")
