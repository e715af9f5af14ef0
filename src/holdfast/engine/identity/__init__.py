"""Whom a request belongs to: tenant, session, agent and lane, from headers, fields and prefix chains.

Reads what clients send and remembers digests, never a credential and never a text. May import the engine's lane, the
wire, the store and what lies below them; knows nothing of sockets.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .accounts import credentials_of, is_login
    from .clients import AGENTS, HEADER, SDKS, client_of, is_side
    from .continuation import CHECKED, LOGGED, ChainReader, Evidence, History, Relation, choose, is_reopened, repeated
    from .identities import LOCAL, Identities, RequestSource
    from .lane_index import Care
    from .session_names import Headers, Identity, SessionName, named, previous_response
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".accounts": "credentials_of is_login",
            ".clients": "AGENTS HEADER SDKS client_of is_side",
            ".continuation": "CHECKED ChainReader Evidence History LOGGED Relation choose is_reopened repeated",
            ".identities": "Identities LOCAL RequestSource",
            ".lane_index": "Care",
            ".session_names": "Headers Identity SessionName named previous_response",
        },
    )
