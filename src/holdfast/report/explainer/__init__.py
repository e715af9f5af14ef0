"""What broke the cache in logs that are already there: every break with its cause, cost and cure, and the sums.

Takes `traces.logs` records one by one and keeps a few counts for each session and lane, so that memory does not grow
with the logs. Two kinds of evidence: the bytes of the requests where a log has them, else what usage alone proves.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .advice import CATALOGUE as CATALOGUE
    from .advice import by_setting as by_setting
    from .advice import others as others
    from .advice import with_others as with_others
    from .explainer import Explainer as Explainer
    from .heads import LOOKS as LOOKS
    from .log_files import explain as explain
    from .log_files import file_read as file_read
    from .log_files import list_logs as list_logs
    from .log_files import unreadable as unreadable
    from .prices import DATED as DATED
    from .results import BreakFinding as BreakFinding
    from .results import CureSum as CureSum
    from .results import ExplainReport as ExplainReport
    from .results import FileRead as FileRead
    from .results import HeadSum as HeadSum
    from .results import Money as Money
    from .results import OtherTtl as OtherTtl
    from .results import SessionFindings as SessionFindings
    from .results import utf8 as utf8
    from .sessions import RequestWindow as RequestWindow
    from .totals import with_head as with_head
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
