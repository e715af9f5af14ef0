"""The error that every interface of Holdfast shows: one sentence with the problem, its place and the remedy."""

from __future__ import annotations


class HoldfastError(Exception):
    """A problem the user can act on; the command line prints it without a traceback and exits non-zero."""


class ArgumentError(HoldfastError, TypeError):
    """A function was given something that it cannot use."""


def wrong_argument(what: str, value: object, wanted: str) -> ArgumentError:
    """Return the error for the argument `what`; `wanted` describes a valid value, with an example."""
    return ArgumentError(f"{what} got {kind_of(value)}; give {wanted}")


def kind_of(value: object) -> str:
    """Describe the type of a value. The value itself may be a secret and is not shown."""
    if value is None or isinstance(value, bytes):
        return "None" if value is None else "bytes"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
