"""The gateway: a server between any client and four provider APIs. Untouched bytes stay untouched.

`app` receives, `routes` says where a request goes, `pipeline` takes it through a passage, carries it to the provider
and back, `admin` answers what is ours. Imports `report`, `memory` and below; decides nothing about caches.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import discovery as discovery
    from . import launch as launch
    from .app import RefusedRequest as RefusedRequest
    from .assembly import ACCESS_KEY as ACCESS_KEY
    from .assembly import ADMIN_TOKEN as ADMIN_TOKEN
    from .assembly import Gateway as Gateway
    from .launch import READ as READ
    from .request_reader import GatewayRequest as GatewayRequest
    from .retention import AGENT as AGENT
    from .retention import SESSIONS as SESSIONS
    from .retention import Retention as Retention
    from .runs import RunSummary as RunSummary
    from .server import running as running
    from .server import serve as serve
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "discovery launch",
            ".app": "RefusedRequest",
            ".assembly": "ACCESS_KEY ADMIN_TOKEN Gateway",
            ".launch": "READ",
            ".request_reader": "GatewayRequest",
            ".retention": "AGENT Retention SESSIONS",
            ".runs": "RunSummary",
            ".server": "running serve",
        },
    )
