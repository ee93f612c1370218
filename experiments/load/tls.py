"""TLS to a service: trusted certificates, and the problem with an untrusted one."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from core.errors import EnvironmentMissing, InputError
from experiments.design.experiment import Load
from experiments.design.target import Target

UNCHECKED = "Certificates are not checked: insecure = true."
CA_BYTES_MAX = 4 * 1024 * 1024
# OpenSSL's codes of verification, as both load workers say them.
_NOT_TRUSTED, _EXPIRED, _OF_ANOTHER_NAME = (18, 19, 20, 21), (10,), (62, 64)


@dataclass(frozen=True)
class PlanTls:
    """TLS to entries of https: the name that certificates are for, the certificates of those who
    are trusted to sign them (PEM), or that any will do."""

    name: str
    roots: str
    insecure: bool


def tls_of(load: Load, directory: Path, name: str | None) -> PlanTls | None:
    """Return the TLS part of a design's plan for a server called `name`; None without a name.
    Raises as `plan_tls`.
    """
    if name is None:
        return None
    return plan_tls(name, None if load.ca is None else directory / load.ca, load.insecure)


def plan_tls(name: str, ca: Path | None, insecure: bool) -> PlanTls:
    """Return the TLS part of a plan for a service called `name`.

    It trusts the authorities in the file `ca`, else those that this host trusts; with `insecure`
    certificates are not checked. Raises: InputError for a file without certificates,
    EnvironmentMissing if this host trusts no authority.
    """
    if insecure:
        return PlanTls(name, "", insecure=True)
    path = ca if ca is not None else Path(ssl.get_default_verify_paths().cafile or "")
    try:
        roots = path.read_text(encoding="ascii", errors="replace")
        if 0 < len(roots) <= CA_BYTES_MAX:
            ssl.create_default_context(cadata=roots)
            return PlanTls(name, roots, insecure=False)
        got = f"{len(roots)} bytes"
    except (OSError, ValueError) as error:
        got = str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
    if ca is None:
        raise EnvironmentMissing(
            "certificates",
            expected="authorities that this host trusts",
            got=got,
            hint="Install ca-certificates, or name a file: [load] ca.",
        )
    raise InputError(
        f"[load] ca: {ca}",
        expected=f"a file of certificates in PEM, at most {CA_BYTES_MAX} bytes",
        got=got,
        hint="Name the file of the authority that signs the service's certificate.",
    )


def context_of(tls: PlanTls) -> ssl.SSLContext:
    if tls.insecure:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context = ssl.create_default_context(cadata=tls.roots)
    context.set_alpn_protocols(["http/1.1"])
    return context


def handshake_problem(error: ssl.SSLError) -> str:
    """Return the reason why a handshake failed, in few words."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return "TLS"
    code = error.verify_code
    if code in _NOT_TRUSTED:
        return "certificate: not trusted"
    if code in _EXPIRED:
        return "certificate: expired"
    return "certificate: of another name" if code in _OF_ANOTHER_NAME else "certificate"


def check_answers(target: Target, tls: PlanTls | None, timeout_s: float) -> None:
    """Connect once, before anything is made. Raises: EnvironmentMissing if nothing listens there,
    or not with the URL's protocol; InputError if the certificate is wrong.
    """
    try:
        with socket.create_connection((target.address, target.port), timeout_s) as plain:
            if tls is not None:
                with context_of(tls).wrap_socket(plain, server_hostname=tls.name):
                    pass
    except ssl.SSLCertVerificationError as error:
        raise InputError(
            f"--target {target.url}",
            expected="a certificate for that name, signed by one who is trusted",
            got=f"{handshake_problem(error)} ({error.verify_message})",
            hint='Name its authority: ca = "FILE" under [load]; insecure = true checks nothing.',
        ) from error
    except OSError as error:
        raise EnvironmentMissing(
            f"--target {target.url}",
            expected=f"a service that answers at {target.address}:{target.port}",
            got=str(getattr(error, "reason", None) or error.strerror or error),
            hint="Start it, or correct the URL.",
        ) from error
