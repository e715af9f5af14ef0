"""What broke the cache in logs that are already there: every break with its cause, cost and cure, and the sums.

Takes `traces.logs` records one by one and keeps a few counts for each session and lane, so that memory does not grow
with the logs. Two kinds of evidence: the bytes of the requests where a log has them, else what usage alone proves.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .explainer import Explainer as Explainer
    from .heads import LOOKS as LOOKS
    from .log_files import explain as explain
    from .log_files import file_read as file_read
    from .log_files import list_logs as list_logs
    from .log_files import unreadable as unreadable
    from .prices import DATED as DATED
    from .report import with_head as with_head
    from .results import BreakFinding as BreakFinding
    from .results import CureSum as CureSum
    from .results import ExplainReport as ExplainReport
    from .results import FileRead as FileRead
    from .results import HeadSum as HeadSum
    from .results import Money as Money
    from .results import OtherTtl as OtherTtl
    from .results import SessionFindings as SessionFindings
    from .results import utf8 as utf8
    from .sentences import CATALOGUE as CATALOGUE
    from .sentences import by_setting as by_setting
    from .sentences import others as others
    from .sentences import with_others as with_others
    from .session_dedup import RequestWindow as RequestWindow
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".explainer": "Explainer",
            ".heads": "LOOKS",
            ".log_files": "explain file_read list_logs unreadable",
            ".prices": "DATED",
            ".report": "with_head",
            ".results": "BreakFinding CureSum ExplainReport FileRead HeadSum Money OtherTtl SessionFindings utf8",
            ".sentences": "CATALOGUE by_setting others with_others",
            ".session_dedup": "RequestWindow",
        },
    )
