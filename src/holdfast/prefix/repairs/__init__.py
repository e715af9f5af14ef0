"""Repairs of what clients do to their own prefix: which order, which first value, what is told instead.

Pure decisions on texts and digests. Knows nothing of how a body is spelled; `engine.repairing` applies them.
"""

from .memory import ByteMemory
from .state import Insert, Kept, RepairState
from .values import MOVES, NAMES, Mode, Repair

__all__ = ["MOVES", "NAMES", "ByteMemory", "Insert", "Kept", "Mode", "Repair", "RepairState"]
