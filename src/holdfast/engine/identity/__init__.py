"""Whom a request belongs to: tenant, session, agent and lane, from headers, fields and prefix chains.

Reads what clients send and remembers digests, never a credential and never a text. May import the engine's lane, the
wire, the store and what lies below them; knows nothing of sockets.
"""

from .clients import client_of
from .credentials import credentials_of, is_login
from .identities import Identities
from .lane_matcher import Care
from .names_and_ids import Found, Headers

__all__ = ["Care", "Found", "Headers", "Identities", "client_of", "credentials_of", "is_login"]
