"""A session's tools array as it was declared: what has to be kept of it over a restart, and what changed in it."""

from __future__ import annotations

from msgspec import Struct

from holdfast.records import Opaque, ToolDefinition

from .carriers import Carrier


class ToolSetState(Struct, frozen=True, kw_only=True):
    """Everything that is needed to render the same tools after a restart.

    `declared` is the array in order, `deferred` what may be found, `discovered` what was, `recent` what was since the
    last reset, `vanished` why tools that the model knows are unavailable.
    """

    model: str
    dialect: str
    carrier: Carrier
    declared: tuple[ToolDefinition | Opaque, ...] = ()
    deferred: tuple[ToolDefinition, ...] = ()
    discovered: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    vanished: dict[str, str] = {}


class Redeclared(Struct, frozen=True, kw_only=True):
    """What changed in the array: names that came in, vanished ones that left, those that were deferred or demoted (with
    the turns they were idle), and those whose definition became another."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()
    demoted: tuple[tuple[str, int], ...] = ()
    changed: tuple[str, ...] = ()
