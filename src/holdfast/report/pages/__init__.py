"""Reports as HTML: one self-contained file each, with charts of its own, that asks nobody for anything.

Pure functions of a report. Whatever stands in a log is text and stays text. May import `report`, `core` and below.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import charts, page, texts
    from .charts import Bar, Dots, Tone
    from .explain import explain_page
    from .markup import Cell, Child, Markup, TableColumn, joined, table, tag
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "charts page texts",
            ".charts": "Bar Dots Tone",
            ".explain": "explain_page",
            ".markup": "Cell Child Markup TableColumn joined table tag",
        },
    )
