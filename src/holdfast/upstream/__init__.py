"""The way out to providers: whose certificates are trusted, which proxy is used, and what of an address may be shown.

May import `config` and below.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .certificates import VARIABLES as VARIABLES
    from .certificates import Trust as Trust
    from .certificates import trust as trust
    from .certificates import untrusted as untrusted
    from .path_masks import shown_address as shown_address
    from .path_masks import shown_path as shown_path
    from .proxies import proxy_for as proxy_for
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".certificates": "Trust VARIABLES trust untrusted",
            ".path_masks": "shown_address shown_path",
            ".proxies": "proxy_for",
        },
    )
