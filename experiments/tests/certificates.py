"""A certificate authority for tests, and servers that have its certificates."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


class Authority:
    """An authority in a folder, by the program openssl; `file` is its own certificate."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.file = folder / f"{name}.pem"
        self._key, self._folder = folder / f"{name}.key", folder
        _openssl(
            "req", "-x509", "-subj", f"/CN={name}", "-days", "2", "-out", self.file,
            "-addext", "basicConstraints=critical,CA:TRUE", *_key(self._key),
        )  # fmt: skip

    def server(self, name: str, *, days: int = 2) -> ssl.SSLContext:
        """The context of a server whose certificate is for `DNS:NAME` or `IP:ADDRESS`."""
        stem = self._folder / name.replace(":", "-")
        key, request, pem = (stem.with_suffix(end) for end in (".key", ".csr", ".pem"))
        extension = stem.with_suffix(".ext")
        extension.write_text(f"subjectAltName={name}\n")
        _openssl("req", "-subj", "/CN=server", "-out", request, *_key(key))
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self._key, "-out", pem,
            "-CAcreateserial", "-days", str(days), "-extfile", extension,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem, key)
        return context


def _key(path: Path) -> list[str | Path]:
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout"]
    return [*options, path]


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
