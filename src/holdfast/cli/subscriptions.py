"""What is said of subscription logins (Claude, ChatGPT), whose requests are not billed by the token."""

from __future__ import annotations

from decimal import Decimal

from holdfast.cli.tables import dollars
from holdfast.config import Config

AT_LIST_PRICE = "at list price"


STARRED = f"* {AT_LIST_PRICE}: a subscription pays."
"""Below a table in which such dollars have a star."""


def treatment(config: Config) -> str:
    """What happens to their requests."""
    if config.settings.gateway.subscriptions == "manage":
        done = "planned and edited like all others"
    else:
        done = "observed, not edited"
    return (
        f"requests of Claude and ChatGPT logins are {done}; their dollars are {AT_LIST_PRICE} (gateway.subscriptions)"
    )


def priced(cost: Decimal | None, at_list: Decimal | None, estimated: int = 0) -> str:
    """Dollars, with `~` where a part is estimated, and how much of them nobody is billed for."""
    paid = ("~" if estimated else "") + dollars(cost)
    if cost is None or at_list is None:
        return paid
    if at_list == cost:
        return f"{paid} {AT_LIST_PRICE} (a subscription pays)"
    return f"{paid} ({dollars(at_list)} of it {AT_LIST_PRICE}: a subscription pays)"
