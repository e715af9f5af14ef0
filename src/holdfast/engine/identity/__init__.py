"""Whom a request belongs to: tenant, session, agent and lane, from headers, fields and prefix chains.

Reads what clients send and remembers digests, never a credential and never a text. May import the engine's lane, the
wire, the store and what lies below them; knows nothing of sockets.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .accounts import credentials_of as credentials_of
    from .accounts import is_login as is_login
    from .chains import ChainReader as ChainReader
    from .clients import AGENTS as AGENTS
    from .clients import HEADER as HEADER
    from .clients import SDKS as SDKS
    from .clients import client_of as client_of
    from .continuation import CHECKED as CHECKED
    from .continuation import LOGGED as LOGGED
    from .continuation import Evidence as Evidence
    from .continuation import History as History
    from .continuation import Relation as Relation
    from .continuation import choose as choose
    from .continuation import is_reopened as is_reopened
    from .continuation import repeated as repeated
    from .identities import LOCAL as LOCAL
    from .identities import Identities as Identities
    from .identities import RequestSource as RequestSource
    from .lane_index import Care as Care
    from .session_names import Headers as Headers
    from .session_names import Identity as Identity
    from .session_names import SessionName as SessionName
    from .session_names import named as named
    from .session_names import previous_response as previous_response
    from .side_requests import is_side as is_side
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".accounts": "credentials_of is_login",
            ".chains": "ChainReader",
            ".clients": "AGENTS HEADER SDKS client_of",
            ".continuation": "CHECKED Evidence History LOGGED Relation choose is_reopened repeated",
            ".identities": "Identities LOCAL RequestSource",
            ".lane_index": "Care",
            ".session_names": "Headers Identity SessionName named previous_response",
            ".side_requests": "is_side",
        },
    )
