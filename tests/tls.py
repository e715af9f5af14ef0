"""TLS in front of a plain server on this machine, with a certificate that an authority of the test's own has signed."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.upstream.certificates import VARIABLES

__all__ = ["VARIABLES", "Authority", "authority", "secured"]


class Authority(NamedTuple):
    """`file` is its certificate, `chain` that of 127.0.0.1 with its key."""

    file: Path
    chain: Path


def authority(place: Path) -> Authority:
    """One that signs a certificate for 127.0.0.1."""
    place.mkdir(parents=True, exist_ok=True)
    signer, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A company's proxy")])
    own = _built(issuer, issuer, signer.public_key())
    own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    own = own.add_extension(usage, critical=True)
    own = own.add_extension(x509.SubjectKeyIdentifier.from_public_key(signer.public_key()), critical=False)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    leaf = _built(subject, issuer, key.public_key())
    named = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = leaf.add_extension(named, critical=False)
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    leaf = leaf.add_extension(by, critical=False)
    pem = serialization.Encoding.PEM
    file, chain = place / "authority.pem", place / "server.pem"
    file.write_bytes(own.sign(signer, hashes.SHA256()).public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain.write_bytes(leaf.sign(signer, hashes.SHA256()).public_bytes(pem) + secret)
    return Authority(file, chain)


def _built(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


@contextlib.contextmanager
def secured(plain: str, by: Authority) -> Iterator[str]:
    """The https address behind which a plain server answers."""
    parts = urlsplit(plain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(by.chain)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(raw: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            context.wrap_socket(raw, server_side=True) as client,
            socket.create_connection((parts.hostname or "", parts.port or 80)) as server,
        ):
            client.settimeout(20)
            server.settimeout(20)
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join(5)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
