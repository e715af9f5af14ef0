"""Whom a request belongs to: tenant, session, agent and lane, from headers, fields and prefix chains.

Reads what clients send and remembers digests, never a credential and never a text. May import the engine's lane, the
wire, the store and what lies below them; knows nothing of sockets.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .chains import ChainReader as ChainReader
    from .clients import AGENTS as AGENTS
    from .clients import client_of as client_of
    from .continuation import CHECKED as CHECKED
    from .continuation import LOGGED as LOGGED
    from .continuation import Evidence as Evidence
    from .continuation import History as History
    from .continuation import Relation as Relation
    from .continuation import choose as choose
    from .continuation import is_reopened as is_reopened
    from .continuation import repeated as repeated
    from .credentials import credentials_of as credentials_of
    from .credentials import is_login as is_login
    from .identities import LOCAL as LOCAL
    from .identities import Identities as Identities
    from .identities import RequestSource as RequestSource
    from .lane_index import Care as Care
    from .marks import HEADER as HEADER
    from .marks import SDKS as SDKS
    from .names_and_ids import Headers as Headers
    from .names_and_ids import Identity as Identity
    from .session_names import SessionName as SessionName
    from .session_names import named as named
    from .session_names import previous_response as previous_response
    from .side_requests import is_side as is_side
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".chains": "ChainReader",
            ".clients": "AGENTS client_of",
            ".continuation": "CHECKED Evidence History LOGGED Relation choose is_reopened repeated",
            ".credentials": "credentials_of is_login",
            ".identities": "Identities LOCAL RequestSource",
            ".lane_index": "Care",
            ".marks": "HEADER SDKS",
            ".names_and_ids": "Headers Identity",
            ".session_names": "SessionName named previous_response",
            ".side_requests": "is_side",
        },
    )
