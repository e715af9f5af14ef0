"""What broke the cache in logs that are already there: every break with its cause, cost and cure, and the sums.

Takes `traces.logs` records one by one and keeps a few counts for each session and lane, so that memory does not grow
with the logs. Two kinds of evidence: the bytes of the requests where a log has them, else what usage alone proves.
"""

from .explainer import Explainer
from .session_dedup import Window

__all__ = ["Explainer", "Window"]
