"""An instance unpacks, runs and believes only what its user data names by checksum."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

from experiments.paths import ROOT

BOOT = ROOT / "infra" / "boot"
BUNDLE = b"what the fleet was planned with"


def _function(name: str) -> str:
    text = (BOOT / "boot.sh").read_text()
    found = re.search(rf"^{name}\(\) {{.*?^}}$", text, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[0]


@pytest.mark.parametrize(("got", "taken"), [(BUNDLE, True), (b"another's", False), (b"", False)])
def test_a_bundle_with_another_checksum_is_not_unpacked(
    tmp_path: Path, got: bytes, taken: bool
) -> None:
    (tmp_path / "in-the-bucket").write_bytes(got)
    script = f"""
    set -eu
    archive={tmp_path}/archive bundle={tmp_path}/bundle
    SC_BUNDLE={hashlib.sha256(BUNDLE).hexdigest()}
    fetch() {{ cp {tmp_path}/in-the-bucket "$2"; }}
    again() {{ "$@"; }}
    install_packages() {{ :; }}
    tar() {{ touch {tmp_path}/unpacked; }}
    {_function("fetch_bundle")}
    {_function("prepare")}
    prepare
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode == 0) == taken, done.stderr
    assert (tmp_path / "unpacked").exists() == taken
    assert (tmp_path / "bundle" / ".whole").exists() == taken


def test_settings_and_content_with_another_checksum_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(BOOT)
    import machine  # type: ignore[import-not-found]

    sha256 = hashlib.sha256(BUNDLE).hexdigest()
    assert machine.whole(BUNDLE, sha256, "settings") == BUNDLE
    with pytest.raises(ValueError, match="settings"):
        machine.whole(b"another's", sha256, "settings")
    monkeypatch.setattr(machine, "DONE", tmp_path / "not-yet")
    monkeypatch.setattr(machine, "CONTENT", tmp_path / "content.tar.gz")

    class Bucket:
        def download_file(self, bucket: str, key: str, file: str) -> None:
            assert (bucket, key) == ("b", "vpc-1/content/redis.tar.gz")
            Path(file).write_bytes(BUNDLE)

    held = {"key": "content/redis.tar.gz", "sha256": sha256}
    assert machine.fetch_content(held, Bucket(), "b", "vpc-1") == tmp_path / "content.tar.gz"
    with pytest.raises(ValueError, match=r"content/redis\.tar\.gz"):
        machine.fetch_content({**held, "sha256": "0"}, Bucket(), "b", "vpc-1")
