"""Repairs of what clients do to their own prefix: which order, which first value, what is told instead.

Pure decisions on texts and digests. Knows nothing of how a body is spelled; `engine.repairing` applies them.
"""

from .kinds import MOVES, NAMES, Mode, Repair
from .memory import ByteMemory
from .state import Insert, Kept, RepairState

__all__ = ["MOVES", "NAMES", "ByteMemory", "Insert", "Kept", "Mode", "Repair", "RepairState"]
