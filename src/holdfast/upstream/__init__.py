"""The way out to providers: the one HTTP client, their addresses and what of them may be shown, whose certificates are
trusted, which proxy is used.

May import `config` and below.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .addresses import Address, parse_address, shown_address, shown_path
    from .aiohttp_adapter import Response, UpstreamError
    from .certificates import VARIABLES, trust
    from .client import HttpClient, fetch, proxy_for
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".addresses": "Address parse_address shown_address shown_path",
            ".aiohttp_adapter": "Response UpstreamError",
            ".certificates": "VARIABLES trust",
            ".client": "HttpClient fetch proxy_for",
        },
    )
