"""What every event of the catalogue is: a frozen payload with a type and a least sensitivity."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from .fields import SENSITIVITIES, Sensitivity


class Event(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The payload of one event type. The type stands in the envelope, not in the payload."""

    type: ClassVar[str]
    sensitivity: ClassVar[Sensitivity]

    @classmethod
    def allowed(cls) -> tuple[Sensitivity, ...]:
        """The sensitivities an envelope may give this event: its own, or a stricter one."""
        return SENSITIVITIES[: SENSITIVITIES.index(cls.sensitivity) + 1]
