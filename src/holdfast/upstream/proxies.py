"""Which proxy a connection to a provider goes through."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping

from holdfast.serving import is_loopback


def proxy_for(scheme: str, host: str, proxies: Mapping[str, str] | None = None) -> str | None:
    """`HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; this machine is never asked through one."""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return (urllib.request.getproxies() if proxies is None else proxies).get(scheme)
