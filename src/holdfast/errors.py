"""The error every door of Holdfast shows: one sentence that says what is wrong, where, and what to do."""

from __future__ import annotations


class HoldfastError(Exception):
    """A problem the user can act on; the command line prints it without a traceback and exits non-zero."""
