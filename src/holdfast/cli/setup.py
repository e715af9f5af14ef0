"""What commands do before their work: the configuration of the current directory, and the facts it asks for."""

from __future__ import annotations

import logging

from holdfast.config import configured_facts, load_config
from holdfast.facts import use


def use_configured_facts() -> None:
    """Lay the override sets of `facts.overrides` over the shipped facts, for this process."""
    logging.basicConfig(format="holdfast: %(message)s")  # warnings of the library, as the command says them
    use(configured_facts(load_config()))
