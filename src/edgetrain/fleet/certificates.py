"""Mutual TLS of a fleet: one certificate authority, one EC P-256 pair per host, keys readable by their owner only."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import ipaddress
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetrain.errors import EdgetrainError, UsageError

DAYS = 365


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What one host needs: the authority's certificate, its own, and its key."""

    ca: Path
    cert: Path
    key: Path

    def options(self) -> list[str]:
        """Return the options of `dask scheduler` and `dask worker`."""
        return ["--tls-ca-file", str(self.ca), "--tls-cert", str(self.cert), "--tls-key", str(self.key)]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def tls_paths(folder: Path, host: str) -> TlsFiles:
    """Return where a host's files are; nothing is made."""
    return TlsFiles(folder / "ca.pem", folder / f"{host}.pem", folder / f"{host}.key")


def tls_files(folder: Path, host: str, address: str, now: Callable[[], datetime.datetime] = _now) -> TlsFiles:
    """Return a host's files, made where they are missing.

    EdgetrainError where a certificate has expired or other users can read a key.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = tls_paths(folder, host)
    with _alone(folder):  # two campaigns that start together must not make an authority each
        if not (files.ca.exists() and (folder / "ca.key").exists()):
            _write_pair(folder / "ca.pem", folder / "ca.key", "edgetrain fleet", None, None, now())
        _refuse_expired(files.ca, now)
        if not (files.cert.exists() and files.key.exists()):
            _write_pair(files.cert, files.key, host, address, folder, now())
    _refuse_expired(files.cert, now)
    problems = key_problems(folder, (folder / "ca.key", files.key))
    if problems:
        raise EdgetrainError(problems[0])
    return files


def _refuse_expired(path: Path, now: Callable[[], datetime.datetime]) -> None:
    if days_left(path.read_bytes(), now) <= 0:
        raise EdgetrainError(f"the certificate {path} has expired; {renewal(path.parent)}")


def renewal(folder: Path) -> str:
    """Return how a fleet gets new keys and certificates."""
    return f"edgetrain fleet down, remove {folder}, then: edgetrain fleet up"


def key_problems(folder: Path, keys: Sequence[Path] | None = None) -> list[str]:
    """Return which private keys in a folder other users can read."""
    found = []
    for path in sorted(folder.glob("*.key")) if keys is None else keys:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            found.append(
                f"the private key {path} has the permissions {mode:04o}: other users can use it; make new keys "
                f"({renewal(folder)}), or where nobody else was on this machine: chmod 600 {path}"
            )
    return found


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def days_left(certificate: bytes, now: Callable[[], datetime.datetime] = _now) -> float:
    """Return how many days a certificate (PEM) is still valid; negative where it has expired."""
    x509, _, _, _ = _library()
    end = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return float((end - now()).total_seconds()) / 86_400


def _library() -> tuple[Any, Any, Any, Any]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise UsageError(
            "a fleet needs cryptography and dask; install them with: pip install 'edgetrain[fleet]'"
        ) from error
    return x509, hashes, serialization, ec


def _write_pair(
    cert: Path, key: Path, name: str, address: str | None, authority: Path | None, now: datetime.datetime
) -> None:
    x509, hashes, serialization, ec = _library()
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer, signer = subject, private
    ends = now + datetime.timedelta(days=DAYS)
    if authority is not None:
        signed_by = x509.load_pem_x509_certificate((authority / "ca.pem").read_bytes())
        issuer, ends = signed_by.subject, min(ends, signed_by.not_valid_after_utc)  # useless once the authority expired
        signer = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        # An hour back: a board whose clock is a little behind accepts it.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
    )
    if address is not None:
        names: list[Any] = [x509.DNSName(name)]
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError:
            names.append(x509.DNSName(address))
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    encoded = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(encoded)
    cert.write_bytes(builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
