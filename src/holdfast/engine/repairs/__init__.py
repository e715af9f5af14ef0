"""Repairs of a request's body: order of tools and keys, first texts, and what they would have saved.

The rules are in `core.repairs`; here they are applied to bytes and kept. Imports `core`, `wire`, `store` and below.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .savings import AS_SENT, Billed, Shadow, ShadowReaders
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".savings": "AS_SENT Billed ShadowReaders Shadow",
        },
    )
