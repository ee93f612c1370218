"""Installs AWS's agent for Session Manager if AWS has signed it; run as root, by boot.sh.

    python3 session_manager.py --key session-manager.asc --url https://.../amazon-ssm-agent.deb

The signature is at URL.sig. Needs gpgv, which apt depends on.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path


def main() -> None:
    """Download, verify and install; a failed step exits with code 1 and installs nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("key", "url"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        package, signature = Path(scratch) / "agent.deb", Path(scratch) / "agent.deb.sig"
        urllib.request.urlretrieve(options.url, package)
        urllib.request.urlretrieve(f"{options.url}.sig", signature)
        keyring = Path(scratch) / "key.gpg"
        keyring.write_bytes(decode_armour(Path(options.key).read_text()))
        check = ["gpgv", "--quiet", "--keyring", str(keyring), str(signature), str(package)]
        if subprocess.run(check, check=False).returncode != 0:
            sys.exit("sparecraft: the agent of Session Manager is not signed with the given key")
        subprocess.run(["dpkg", "-i", package], check=True, stdout=subprocess.DEVNULL)


def decode_armour(text: str) -> bytes:
    """Decode an ASCII-armoured key for gpgv: the lines between headers and checksum."""
    body = text.split("-----BEGIN PGP PUBLIC KEY BLOCK-----", 1)[1].split("-----END", 1)[0]
    lines = [line.strip() for line in body.strip().splitlines() if ":" not in line]
    return base64.b64decode("".join(line for line in lines if not line.startswith("=")))


if __name__ == "__main__":
    main()
