"""`holdfast store`: the file that everything is kept in. One file for each thing to do."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup

JOBS = {
    "check": "upkeep:check_command",
    "backup": "upkeep:backup",
    "prune": "upkeep:prune",
    "vacuum": "upkeep:vacuum_command",
    "forget": "forget",
}


@click.group(cls=LazyGroup, modules={job: f"{__package__}.{place}" for job, place in JOBS.items()})
def command() -> None:
    """Look after the store: check it, copy it, remove what is old, give its room back, forget a tenant.

    It holds sessions, calls, events, what is learned and what is remembered (store.url), and blobs beside it. Calls,
    events and sessions of clients are removed after store.retention days, by the gateway, once a day.

    \b
    Examples:
      holdfast store check
      holdfast store backup ~/backups/holdfast.db
      holdfast store prune --dry-run
      holdfast store forget t-3f9a2c
    """
