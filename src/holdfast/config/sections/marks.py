"""How a key is described: its meaning, its limits, and the marks that the loader and the docs read.

A key that has another name in a document Holdfast implements carries that name (`seed`) and, where our
default differs, that document's value (`seed_value`). `zones` keys act only with `cache.strategy = "zones"`;
in `path` keys `HOLDFAST_HOME` and a leading `~` are replaced. `guarded` keys decide who receives credentials and
prompts, or what is removed: a workspace may be a stranger's repository, so its file cannot set them.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

MANY = 1_000_000_000  # no count in a configuration is honestly larger; a slip of the keyboard is
_ONE_LINE = r"^[^\x00-\x1f\x7f]+\Z"
Names = tuple[Annotated[str, Meta(pattern=_ONE_LINE)], ...]


def about(
    description: str,
    *,
    seed: str | None = None,
    seed_value: object = None,
    zones: bool = False,
    path: bool = False,
    guarded: bool = False,
    allowed: str | None = None,
    **limits: Any,
) -> Meta:
    """Everything a key carries besides its type and default."""
    marks = {"seed": seed, "seed_value": seed_value, "zones": zones, "path": path}
    return Meta(description=description, extra={**marks, "guarded": guarded, "allowed": allowed}, **limits)


def count(description: str, *, least: int = 0, most: int = MANY, **marks: Any) -> Meta:
    return about(description, ge=least, le=most, **marks)


def share(description: str, **marks: Any) -> Meta:
    return about(description, ge=0, le=1, **marks)


def address(description: str) -> Meta:
    return about(
        description,
        guarded=True,
        pattern=r"^https?://[^\s/?#]+[^\s]*\Z",
        allowed="an http:// or https:// address",
    )


def name(description: str, **marks: Any) -> Meta:
    return about(description, pattern=_ONE_LINE, **marks)
