"""The HAProxy of docs/arbiter.md in front of an arbiter: TLS, HTTP/2, health, limits."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from experiments.paths import ROOT
from experiments.tests.arbiters import ARBITER, EXAMPLES, started
from experiments.tests.started import free_port

PAGE = ROOT / "docs" / "arbiter.md"
HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path(HAPROXY).exists(), reason="haproxy is not installed"),
]


def example() -> str:
    fence = re.search(r"^```haproxy\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert fence
    return fence[1]


def certificate(folder: Path) -> Path:
    """A PEM file of a key and its certificate, for localhost."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    command = ["openssl", "req", "-x509", *curve, *names, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    pem = folder / "web.pem"
    pem.write_text(cert.read_text() + key.read_text())
    return pem


class Front:
    """HAProxy and an arbiter, with ports of their own; the servers are started separately."""

    def __init__(self, folder: Path) -> None:
        edge, web, admin, *servers = (free_port() for _ in range(5))
        self._folder, self._edge, self._web, self._servers = folder, edge, web, servers
        pem = certificate(folder)
        text = example().replace("/etc/haproxy/web.pem", str(pem))
        text = text.replace("bind :443", f"bind 127.0.0.1:{edge}")
        assert "gt 1000" in text
        text = text.replace("gt 1000", "gt 50")
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{web}").replace("9300", str(admin))
        (folder / "haproxy.cfg").write_text(text)
        config = (EXAMPLES / "web.toml").read_text()
        for documented, port in zip((8080, 9300, 8081, 8082), (web, admin, *servers), strict=True):
            config = config.replace(f"127.0.0.1:{documented}", f"127.0.0.1:{port}")
        (folder / "web.toml").write_text(config)

    @contextmanager
    def servers(self) -> Iterator[None]:
        ports = [str(port) for port in self._servers]
        with started(self._servers[-1], sys.executable, str(EXAMPLES / "server.py"), *ports):
            yield

    @contextmanager
    def proxies(self) -> Iterator[None]:
        arbiter = [str(ARBITER), "--config", str(self._folder / "web.toml")]
        edge = [HAPROXY, "-db", "-f", str(self._folder / "haproxy.cfg")]
        with ExitStack() as stack:
            stack.enter_context(started(self._web, *arbiter))
            stack.enter_context(started(self._edge, *edge))
            yield

    def ask(self, *more: str, path: str = "/page") -> str:
        """Output of curl for a request over TLS."""
        options = ["--cacert", str(self._folder / "cert.pem"), "-s", "--max-time", "60"]
        url = f"https://localhost:{self._edge}{path}"
        command = ["curl", *options, *more, url]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_client_of_http_2_by_tls_is_answered_through_the_arbiter(tmp_path: Path) -> None:
    front = Front(tmp_path)
    with front.servers(), front.proxies():
        for version, status_line in (("--http2", "HTTP/2 200"), ("--http1.1", "HTTP/1.1 200")):
            reply = front.ask(version, "-i")
            assert reply.startswith(status_line)
            assert "x-sparecraft-server: web-" in reply
            assert "/page by " in reply


def test_who_asks_too_much_is_told_and_the_servers_health_is_the_edge_s(tmp_path: Path) -> None:
    front = Front(tmp_path)
    status = ("-o", "/dev/null", "-w", "%{http_code}\n")
    with front.proxies():
        with front.servers():
            codes = front.ask(*status, path="/[1-200]").split()
        assert set(codes) == {"200", "429"}
        assert codes[-1] == "429"
        # Another client, which stays below the limit.
        other_client = ("--interface", "127.0.0.2", *status)
        while front.ask(*other_client) != "503\n":
            time.sleep(0.5)
        with front.servers():
            while front.ask(*other_client) != "200\n":
                time.sleep(0.5)
