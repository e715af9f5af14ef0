"""What broke the cache in logs that are already there: every break with its cause, cost and cure, and the sums.

Takes the records of `report.logs` one by one and keeps a few counts for each session and lane, so that memory does not
grow with the logs. Two kinds of evidence: the bytes of the requests where a log has them, else what usage alone proves.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .advice import CATALOGUE, by_setting, others, with_others
    from .explainer import Explainer
    from .heads import LOOKS
    from .log_files import explain, file_read, list_logs, unreadable
    from .prices import DATED
    from .results import BreakFinding, CureSum, ExplainReport, FileRead, HeadSum, Money, OtherTtl, SessionFindings, utf8
    from .sessions import RequestWindow
    from .totals import with_head
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".advice": "CATALOGUE by_setting others with_others",
            ".explainer": "Explainer",
            ".heads": "LOOKS",
            ".log_files": "explain file_read list_logs unreadable",
            ".prices": "DATED",
            ".results": "BreakFinding CureSum ExplainReport FileRead HeadSum Money OtherTtl SessionFindings utf8",
            ".sessions": "RequestWindow",
            ".totals": "with_head",
        },
    )
