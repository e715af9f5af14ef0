"""Trusted certificates: the system's authorities and those named by the environment.

Behind a company's proxy every certificate is signed by the company, whose programs are configured by the environment
variables that they read. All of them are read here; each adds authorities and none removes any: a certificate without a
trusted signer is always refused.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""OpenSSL's, Python's requests, curl and Node: what people set for the programs they have."""


class Trust(Struct, frozen=True):
    """`context` is None if nothing is added to the system's authorities; `problems` are the variables that name
    something unreadable."""

    context: ssl.SSLContext | None
    problems: tuple[str, ...] = ()

    @property
    def for_connector(self) -> ssl.SSLContext | bool:
        """The argument for an aiohttp connector: a context, or its default one, which verifies too."""
        return True if self.context is None else self.context


def trust(environ: Mapping[str, str] | None = None) -> Trust:
    """What connections to providers trust in this environment."""
    variables = os.environ if environ is None else environ
    return _trust(tuple((name, value) for name in VARIABLES if (value := variables.get(name, "").strip())))


def untrusted(error: BaseException, trusted: Trust) -> str | None:
    """Return the message about an untrusted certificate; None for other errors."""
    problem = getattr(error, "certificate_error", None) or error  # the library's own has no reason in it
    if not isinstance(problem, ssl.SSLCertVerificationError):
        return None
    text = f"its certificate is not trusted ({getattr(problem, 'verify_message', None) or 'verification failed'})"
    return "; ".join((text, *trusted.problems, _ADVICE))


_ADVICE = (
    "if a proxy of your network signs what passes, name the file of its authority in "
    f"{', '.join(VARIABLES[:-1])} or {VARIABLES[-1]}"
)


@lru_cache(maxsize=8)
def _trust(variables: tuple[tuple[str, str], ...]) -> Trust:
    if not variables:
        return Trust(None)
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    # OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR in place of the system's own
    for file, directory in ((paths.openssl_cafile, None), (None, paths.openssl_capath)):
        _load(context, file, directory)
    results: dict[str, str | None] = {}  # several variables often name the same file
    problems = []
    for name, value in variables:
        for each in value.split(os.pathsep) if name == "SSL_CERT_DIR" else (value,):
            if each not in results:
                results[each] = _add(context, each)
            if why := results[each]:
                problems.append(f"{name} names {each}, which {why}")
    return Trust(context, tuple(problems))


def _add(context: ssl.SSLContext, path: str) -> str | None:
    """Trust what a file or a directory holds; or why that cannot be."""
    try:
        if Path(path).is_dir():
            return _load(context, None, path)
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe would be waited for
            return "is no file"
        with Path(path).open("rb"):  # the library does not say why a file cannot be read
            pass
    except OSError as error:
        return f"cannot be read ({error.strerror or type(error).__name__})"
    return _load(context, path, None)


def _load(context: ssl.SSLContext, file: str | None, directory: str | None) -> str | None:
    try:
        context.load_verify_locations(cafile=file, capath=directory)
    except (OSError, ValueError):
        return "holds no certificates in PEM"
    return None
