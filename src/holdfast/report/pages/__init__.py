"""Reports as HTML: one self-contained file each, with charts of its own, that asks nobody for anything.

Pure functions of a report. Whatever stands in a log is text and stays text. May import `traces`, `prefix` and below,
and the values of `observe`.
"""

from .explain import explain_page

__all__ = ["explain_page"]
