"""What the words of a report mean, for those who read it for the first time."""

from __future__ import annotations

from holdfast.records import CAUSES

MEANINGS = {name: cause.meaning for name, cause in CAUSES.items()}

EVIDENCE = {
    "bytes": "seen in the bytes of the requests",
    "usage": "concluded from the billed tokens",
    "log": "told by the log",
}
