"""Reports as HTML: one self-contained file each, with charts of its own, that asks nobody for anything.

Pure functions of a report. Whatever stands in a log is text and stays text. May import `traces`, `prefix` and below,
and the values of `observe`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import charts as charts
    from . import page as page
    from . import scales as scales
    from . import texts as texts
    from .charts import Bar as Bar
    from .charts import Dots as Dots
    from .charts import Tone as Tone
    from .explain import explain_page as explain_page
    from .markup import Child as Child
    from .markup import Markup as Markup
    from .markup import joined as joined
    from .markup import tag as tag
    from .tables import Cell as Cell
    from .tables import Column as Column
    from .tables import table as table
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "charts page scales texts",
            ".charts": "Bar Dots Tone",
            ".explain": "explain_page",
            ".markup": "Child Markup joined tag",
            ".tables": "Cell Column table",
        },
    )
