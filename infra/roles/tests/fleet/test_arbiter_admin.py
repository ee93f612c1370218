"""An arbiter's admin API by the keys that lie in its machine: mutual TLS, as in a fleet."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from machines import Machine, arbiter_config

pytestmark = pytest.mark.timeout(1800)

ADDRESS = "198.18.241.61"
ADMIN_TLS = """[admin_tls]
ca = "/etc/sparecraft/tls/ca.pem"
cert = "/etc/sparecraft/tls/cert.pem"
key = "/run/sparecraft/arbiter/key.pem"
"""


class Authority:
    """Makes certificates as the provider's fleet_identity does, in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._openssl(
            *("req", "-x509", "-out", "ca.pem", "-keyout", "ca.key", "-days", "1"),
            *(*self._KEY, "-subj", "/CN=ca", "-addext", "basicConstraints=critical,CA:TRUE"),
        )
        self.ca = folder / "ca.pem"

    _KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")

    def sign(self, name: str, usage: str, address: str) -> tuple[Path, Path]:
        """Make a certificate and its key."""
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName=IP:{address}\nextendedKeyUsage={usage}\n")
        files = ("-keyout", f"{name}.key", "-out", f"{name}.csr")
        self._openssl("req", *self._KEY, *files, "-subj", f"/CN={name}")
        self._openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", "-days", "1"),
            *("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", extensions.name),
        )
        return self._folder / f"{name}.pem", self._folder / f"{name}.key"

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._folder, check=True, capture_output=True)


def ask(trusted: Path, client: tuple[Path, Path] | None) -> int:
    """Ask as this client and return the status of the answer."""
    context = ssl.create_default_context(cafile=str(trusted))
    if client is not None:
        context.load_cert_chain(*client)
    url = f"https://{ADDRESS}:9300/v1/stats"
    return httpx.get(url, verify=context, trust_env=False).status_code


def test_an_arbiter_s_admin_answers_the_fleet_s_client_and_nobody_else(
    machine: Callable[..., Machine], tmp_path: Path
) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    certificate, key = ours.sign("arbiter", "serverAuth", ADDRESS)
    client = ours.sign("client", "clientAuth", "127.0.0.1")
    stranger = theirs.sign("client", "clientAuth", "127.0.0.1")
    config = tmp_path / "arbiter.toml"
    config.write_text(arbiter_config(ADDRESS, "198.18.241.62:80", ADMIN_TLS))
    folder = "/etc/sparecraft"
    files = {
        f"{folder}/arbiter.toml": config,
        f"{folder}/tls/ca.pem": ours.ca,
        f"{folder}/tls/cert.pem": certificate,
        f"{folder}/tls/key.pem": key,
    }
    arbiter = machine("arbiter", ADDRESS, files, "arbiter-admin")
    assert arbiter.run("stat", "-c", "%a %U", f"{folder}/tls/key.pem").strip() == "600 root"
    assert ask(ours.ca, client) == 200
    for identity in (None, stranger, (certificate, key)):
        with pytest.raises(httpx.TransportError):
            ask(ours.ca, identity)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{ADDRESS}:9300/v1/stats", trust_env=False)
    arbiter.die_and_return()
