"""A certificate authority of a test's own, and the certificate of a server on this machine."""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


def server_context(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return what an HTTPS server at 127.0.0.1 needs, and the file of the authority that vouches for it."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    authority = (
        _certificate("Test authority", "Test authority", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    name = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _certificate("Test server", "Test authority", server_key)
        .add_extension(name, critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    ca_file, chain = folder / "ca.pem", folder / "server.pem"
    ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return context, ca_file


def _certificate(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
