"""The gateway: a server between any client and four provider APIs. Untouched bytes stay untouched.

`app` receives, `routes` says where a request goes, `pipeline` takes it through a passage, `relay` carries it to the
provider and back, `admin` answers what is ours. Imports `observe`, `transport` and below; decides nothing about caches.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import launch as launch
    from . import presence as presence
    from . import reach as reach
    from .app import Refused as Refused
    from .assembly import ACCESS_KEY as ACCESS_KEY
    from .assembly import ADMIN_TOKEN as ADMIN_TOKEN
    from .assembly import Gateway as Gateway
    from .launch import READ as READ
    from .reach import find as find
    from .reach import place as place
    from .request_reader import Call as Call
    from .retention import AGENT as AGENT
    from .retention import SESSIONS as SESSIONS
    from .retention import Retention as Retention
    from .runs import Seen as Seen
    from .server import running as running
    from .server import serve as serve
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "launch presence reach",
            ".app": "Refused",
            ".assembly": "ACCESS_KEY ADMIN_TOKEN Gateway",
            ".launch": "READ",
            ".reach": "find place",
            ".request_reader": "Call",
            ".retention": "AGENT Retention SESSIONS",
            ".runs": "Seen",
            ".server": "running serve",
        },
    )
