"""A request as it came, whoever carries it, and what it asks of us in headers of ours."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Mapping

from msgspec import Struct

from holdfast.core.repairs import NAMES
from holdfast.records import RESET_REASONS

OURS = b"x-holdfast"
"""Headers that begin so are for us and never forwarded."""

RawHeaders = Iterable[tuple[bytes, bytes]]


class Incoming(Struct, frozen=True):
    """A request: `body` as received, perhaps compressed; `first` the headers by name and `tenant` its tenant, if the
    caller has them already. `project` is the directory in which its client was started, if known."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    first: Mapping[str, str] | None = None
    tenant: str | None = None
    project: str = ""

    def named(self) -> Mapping[str, str]:
        """The headers, as `by_name` gives them."""
        return by_name(self.headers) if self.first is None else self.first


def by_name(headers: RawHeaders) -> dict[str, str]:
    """Headers by their names in lower case; of those that came twice, the first."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reversed(tuple(headers))}


def from_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser sent a request for a web page or an app made like one."""
    return "origin" in headers or "sec-fetch-site" in headers


class Wishes(Struct, frozen=True):
    """The client's wishes for this request: bypass Holdfast, skip repairs, announce a reset, send what was held back,
    get no memory; and the project it belongs to."""

    off: bool = False
    skip: frozenset[str] = frozenset()
    reset: str | None = None
    send: bool = False
    no_memory: bool = False
    project: str = ""


_NONE = Wishes()
_MEMORY, _PROJECT = "x-holdfast-memory", "x-holdfast-project"
_WISHES = ("x-holdfast", "x-holdfast-skip", "x-holdfast-reset", "x-holdfast-preflight", _MEMORY, _PROJECT)
_LONGEST = 4_096  # bytes of a project's name: as long as a path may be


def wishes(headers: Mapping[str, str]) -> Wishes:
    """What is not understood is overlooked: a wrong header must not cost the client its request."""
    for name in _WISHES:
        if name in headers:
            break
    else:
        return _NONE
    skip = {name.strip().lower() for name in headers.get("x-holdfast-skip", "").split(",")}
    reset = headers.get("x-holdfast-reset", "").strip()
    return Wishes(
        off=headers.get("x-holdfast", "").strip().lower() == "off",
        skip=frozenset(NAMES) if "all" in skip else frozenset(skip & set(NAMES)),
        reset=reset if reset in RESET_REASONS else None,
        send=headers.get("x-holdfast-preflight", "").strip().lower() == "send",
        no_memory=headers.get(_MEMORY, "").strip().lower() == "off",
        project=_project(headers.get(_PROJECT, "")),
    )


def _project(value: str) -> str:
    """The name of a project. Headers come byte by byte; a path is mostly UTF-8. One from the root is spelled as entries
    have it, without `..` and a slash at its end; whether it is there is not looked at, it may be another machine's."""
    name = value.strip()
    if len(name) > _LONGEST:
        return ""
    with contextlib.suppress(UnicodeError):
        name = name.encode("latin-1").decode("utf-8")
    if not name.isprintable():
        return ""
    return posixpath.normpath(name) if name.startswith("/") else name


def without_ours(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """What may be forwarded of the headers."""
    return [(name, value) for name, value in headers if not name.lower().startswith(OURS)]
