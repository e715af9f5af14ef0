"""The credential of a request, wherever its client puts it. It is looked at, never kept."""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote_plus

import msgspec

from .names_and_ids import Headers

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
    found: dict[str, None] = {}
    for name in _SCHEMED:
        if name in headers and (value := _behind_scheme(headers[name])):
            found[value] = None
    for name in _HEADERS:
        if name in headers and (value := headers[name].strip()):
            found[value] = None
    if query:
        found.update(dict.fromkeys(_in_query(query)))
    return list(found)


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
