"""A real InfluxDB with the role's own configuration: what it tells whoever has no password."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from machines import ROOT

from experiments.tests.started import told

CONFIG = ROOT / "infra" / "roles" / "influxdb" / "influxdb.conf"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Its address: the configuration's, but for folders and ports."""
    program = shutil.which("influxd")
    assert program, "expected influxd: run ci/packages tests"
    text = CONFIG.read_text().replace("/var/lib/influxdb", str(tmp_path))
    config, log = tmp_path / "influxdb.conf", tmp_path / "influxd.log"
    config.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", text))
    with log.open("wb") as output:
        command = [program, "run", "-config", str(config)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield "http://" + told(process, log, r"Listening on HTTP.*addr=(127\.0\.0\.1:\d+)")
    finally:
        process.kill()
        process.wait()


def test_influxdb_shows_nobody_its_inside_and_computes_for_nobody(url: str) -> None:
    def status(path: str) -> int:
        return httpx.get(f"{url}/{path}", trust_env=False).status_code

    assert status("ping") == 204
    assert status("query?q=SHOW DATABASES") in (401, 403)  # 403: it has no user yet
    profiles = ("", "heap", "goroutine", "profile?seconds=1", "trace?seconds=1", "all")
    assert {profile: status(f"debug/pprof/{profile}") for profile in profiles} == dict.fromkeys(
        profiles, 404
    )
