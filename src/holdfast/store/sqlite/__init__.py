"""The store in one SQLite file. All SQL of ours stands here."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import tenant_removal
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "tenant_removal",
        },
    )
