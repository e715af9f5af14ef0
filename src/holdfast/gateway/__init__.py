"""The gateway: a server between any client and four provider APIs. Untouched bytes stay untouched.

`app` receives, `routes` says where a request goes, `pipeline` takes it through a passage, carries it to the provider
and back, `admin` answers what is ours. Imports `report`, `memory` and below; decides nothing about caches.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import discovery, launch
    from .app import RefusedRequest
    from .assembly import ACCESS_KEY, ADMIN_TOKEN, Gateway
    from .launch import READ
    from .request_reader import GatewayRequest
    from .retention import AGENT, SESSIONS, RetentionPeriod
    from .runs import RunSummary
    from .server import running, serve
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "discovery launch",
            ".app": "RefusedRequest",
            ".assembly": "ACCESS_KEY ADMIN_TOKEN Gateway",
            ".launch": "READ",
            ".request_reader": "GatewayRequest",
            ".retention": "AGENT RetentionPeriod SESSIONS",
            ".runs": "RunSummary",
            ".server": "running serve",
        },
    )
