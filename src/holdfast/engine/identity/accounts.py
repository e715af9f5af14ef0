"""The account of a request: its credential, wherever its client puts it, and which login tokens belong together.

A login token is renewed every few hours, and the account stays the same. Two tokens belong to one account if the
provider's answers name the same organisation for both and the client identifies itself by the same stable id. Neither
counts alone: a request can claim anything. Keyed digests are stored, never a token and never an id.
"""

from __future__ import annotations

import base64
import logging
import re
import sqlite3
import threading
from collections.abc import Iterable
from urllib.parse import unquote_plus

import msgspec

from holdfast.errors import HoldfastError
from holdfast.lru import LRU
from holdfast.notices import warn_once
from holdfast.store import Store
from holdfast.store import operations as op
from holdfast.wire import Body

from .session_names import Headers, json_of, keyed, named

_HEADERS = (
    "x-api-key",  # Anthropic
    "api-key",  # Azure
    "x-goog-api-key",  # Gemini
    "ocp-apim-subscription-key",  # Azure's API management
    "x-auth-token",
    "x-litellm-api-key",
    "x-portkey-api-key",
)
_SCHEMED = ("authorization", "cf-aig-authorization", "helicone-auth", "x-goog-iam-authorization-token")
_QUERY = ("key", "api_key", "api-key", "access_token", "subscription-key", "x-amz-credential")
_signed = re.compile(r"AWS4-[A-Z0-9-]+\s.*?\bCredential=([^/,\s]+)/", re.IGNORECASE | re.DOTALL).match

_CLAUDE = "sk-ant-oat"  # how tokens of a Claude login begin
_CLAUDE_BETA = "oauth-"  # the beta that they are sent with
_CHATGPT_ACCOUNT = "chatgpt-account-id"
_CHATGPT_ISSUER = "https://auth.openai.com"
_CHATGPT_CLAIM = "https://api.openai.com/auth"
_LONGEST_TOKEN = 16_384


def credentials_of(headers: Headers, query: str) -> list[str]:
    """All different ones: of headers that name a scheme what follows it, of a signed request (AWS) the access key's id,
    since its signature is another each time; the keys of other headers and of the query.

    Who sends two is told apart by both: one of them may be a filler that everybody sends."""
    credentials: dict[str, None] = {}
    for name in _SCHEMED:
        if name in headers and (value := _behind_scheme(headers[name])):
            credentials[value] = None
    for name in _HEADERS:
        if name in headers and (value := headers[name].strip()):
            credentials[value] = None
    if query:
        credentials.update(dict.fromkeys(_in_query(query)))
    return list(credentials)


def is_login(headers: Headers) -> bool:
    """Whether a request is paid for by a subscription: its token is that of a login to Claude or ChatGPT, which is
    renewed every few hours."""
    token = _behind_scheme(headers.get("authorization", ""))
    if not token:
        return headers.get("x-api-key", "").startswith(_CLAUDE)
    if token.startswith(_CLAUDE) or _CHATGPT_ACCOUNT in headers:
        return True
    if _CLAUDE_BETA in headers.get("anthropic-beta", "") and "x-api-key" not in headers:
        return not token.startswith("sk-ant-api")
    return token.startswith("eyJ") and _is_of_chatgpt(token)


class _Claims(msgspec.Struct):
    """What counts of a token's claims. They are not verified: who lies about them is observed instead of edited."""

    iss: str = ""
    auth: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name=_CHATGPT_CLAIM)


def _is_of_chatgpt(token: str) -> bool:
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _LONGEST_TOKEN:
        return False
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims)
    except (ValueError, msgspec.MsgspecError):
        return False
    return claims.iss.rstrip("/") == _CHATGPT_ISSUER or bool(bytes(claims.auth))


def _behind_scheme(value: str) -> str:
    if (signed := _signed(value)) is not None:
        return signed[1]
    words = value.split(None, 1)
    if len(words) == 2:
        return words[1].strip()
    return words[0] if words and words[0].lower() not in ("bearer", "basic") else ""


def _in_query(query: str) -> list[str]:
    values = []
    for part in query.removeprefix("?").split("&"):
        name, _, value = part.partition("=")
        if value and (name := unquote_plus(name).lower()) in _QUERY and (value := unquote_plus(value).strip()):
            values.append(value.partition("/")[0] if name == "x-amz-credential" else value)
    return values


ORGANISATION = (b"anthropic-organization-id", b"openai-organization")
"""Headers in which providers name the organisation of a request."""

MOST = 4_000
"""Links and tokens in memory; others are looked up again."""

_HOPS = 8  # from token to token, where two accounts turned out to be one
_PROBLEMS = (HoldfastError, sqlite3.Error, OSError, RuntimeError)
_log = logging.getLogger(__name__)


def organisation_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The organisation that an answer names; empty where it names none."""
    for name, value in headers:
        if name.lower() in ORGANISATION and value.strip():
            return f"{name.decode('latin-1').lower()} {value.decode('latin-1').strip()}"
    return ""


def client_id(headers: Headers, body: Body, client: str) -> str:
    """What a client calls itself by, whatever its token: device and account where it names both, else its session."""
    metadata = json_of(body.member("metadata")) if body.dialect == "anthropic" else None
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if isinstance(user, str):
        inner = json_of(user.encode("utf-8", "surrogatepass")) if user.startswith("{") else None
        if isinstance(inner, dict):
            device, account = inner.get("device_id"), inner.get("account_uuid")
            if isinstance(device, str) and isinstance(account, str) and device and account:
                return repr(("account", device, account))
        device, _, rest = user.partition("_account_")
        account = rest.partition("_session_")[0]
        if device and account:
            return repr(("account", device, account))
    name = named(headers, body, client)
    return repr(("session", name.session)) if name is not None and name.sure else ""


class Accounts:
    """The tenants of login tokens by the account they belong to. May be used from several threads."""

    def __init__(self, key: bytes, store: Store | None) -> None:
        self._key, self._store = key, store
        self._lock = threading.Lock()
        self._tenants: LRU[str, str] = LRU(MOST)  # by link and by token; empty where there is none
        self._linked: LRU[tuple[str, str], None] = LRU(MOST)

    def first(self, tenant: str) -> str:
        """The tenant that the account of a token was known as first; the token's own where it is not linked."""
        with self._lock:
            return self._first(tenant)

    def link(self, tenant: str, organisation: str, client: str, now: float) -> bool:
        """A token's request was answered for this organisation and came from this client. Says whether it turned out to
        be of an account that was known by another token."""
        name = "l-" + keyed(self._key, repr((organisation, client))).hex()[:32]
        with self._lock:
            if (tenant, name) in self._linked:
                return False
            self._linked[tenant, name] = None
            mine, theirs = self._first(tenant), self._find(name)
            known = self._first(theirs) if theirs else ""
            if not known:
                self._put(name, mine, now)
                return False
            if known == mine:
                return False
            self._put(mine, known, now)
            return True

    def _first(self, tenant: str) -> str:
        for _ in range(_HOPS):
            before = self._find(tenant)
            if not before:
                break
            tenant = before
        return tenant

    def _find(self, name: str) -> str:
        tenant = self._tenants.peek(name)
        if tenant is None:
            try:
                tenant = "" if self._store is None else self._store.account(name) or ""
            except _PROBLEMS as error:
                warn_once(_log, "renewed logins are not recognised: %s", error)
                return ""
            self._tenants[name] = tenant
        return tenant

    def _put(self, name: str, tenant: str, now: float) -> None:
        self._tenants[name] = tenant
        if self._store is None:
            return
        try:
            self._store.write(op.PutAccount(name, tenant, at=round(now * 1e6)))
        except _PROBLEMS as error:
            warn_once(_log, "a renewed login will not be recognised after a restart: %s", error)
