"""What `holdfast doctor` examines: configuration, home, store, upstreams, clients, and the dates of facts and prices.

Every check gives results and cannot fail the others. May import `gateway`, `report` and below.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .examination import DoctorReport, examine
    from .machine import subscription_policy
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".examination": "DoctorReport examine",
            ".machine": "subscription_policy",
        },
    )
