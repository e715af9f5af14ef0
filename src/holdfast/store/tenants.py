"""How the tenants of subscriptions are told from the others, by their names alone."""

from __future__ import annotations

SUBSCRIPTION = "s-"
"""How the tenants of subscriptions' logins begin: what they spend is not billed by the token."""


def is_subscription(tenant: str) -> bool:
    """Whether a tenant pays by subscription: its dollars are what the same tokens would cost at list price."""
    return tenant.startswith(SUBSCRIPTION)
