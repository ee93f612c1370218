"""`infra/boot/session_manager.py` installs what was signed with the given key, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from experiments.paths import ROOT
from optimizer.tests.answers import Answer, answering

SCRIPT = ROOT / "infra" / "boot" / "session_manager.py"
PACKAGE = b"a package"


def _gpg(home: Path, *arguments: str) -> bytes:
    home.mkdir(mode=0o700, exist_ok=True)
    command = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    return subprocess.run([*command, *arguments], check=True, capture_output=True).stdout


def _signer(home: Path, package: Path) -> tuple[str, bytes]:
    """A key of its own: its public half in armour, and its signature of the package."""
    _gpg(home, "--quick-gen-key", "agent@example.org", "ed25519", "sign", "never")
    signature = _gpg(home, "--output", "-", "--detach-sign", str(package))
    key = _gpg(home, "--armor", "--export").decode()
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=True)
    return key, signature


@pytest.mark.parametrize("case", ["signed", "another's key", "another package", "no signature"])
def test_only_a_package_that_is_signed_with_the_given_key_is_installed(
    tmp_path: Path, case: str
) -> None:
    package = tmp_path / "package"
    package.write_bytes(PACKAGE)
    key, signature = _signer(tmp_path / "ours", package)
    if case == "another's key":
        _, signature = _signer(tmp_path / "theirs", package)
    body = PACKAGE + b"!" if case == "another package" else PACKAGE

    def answer(asked: BaseHTTPRequestHandler, _: bytes) -> Answer:
        if asked.path.endswith(".sig"):
            return (404, {}, b"") if case == "no signature" else (200, {}, signature)
        return 200, {}, body

    (tmp_path / "key.asc").write_text(key)
    dpkg = tmp_path / "dpkg"
    dpkg.write_text(f'#!/bin/sh\ncp "$2" {tmp_path}/installed\n')
    dpkg.chmod(0o700)
    path = f"{tmp_path}:{os.environ['PATH']}"
    with answering(answer) as url:
        done = subprocess.run(
            [sys.executable, SCRIPT, "--key", tmp_path / "key.asc", "--url", f"{url}/agent.deb"],
            env={**os.environ, "PATH": path, "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )
    installed = tmp_path / "installed"
    assert installed.exists() == (case == "signed"), done.stderr
    assert (done.returncode == 0) == installed.exists()
