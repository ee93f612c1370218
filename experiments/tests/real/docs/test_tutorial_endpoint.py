"""The part of docs/your-own-service.md on a service that runs already, on a server of this host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.tests.tutorial import BLOCK, PAGE, RUN_ENDPOINT, Reader

DESIGN = "my-endpoint"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    """Python's own server, as the page says, on a free port."""
    (tmp_path / "served").mkdir()
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(command, cwd=tmp_path / "served", stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as server:  # fmt: skip
        assert server.stdout is not None
        match = re.search(r"port (\d+)", server.stdout.readline())
        assert match is not None
        yield match[1]
        server.kill()


@pytest.mark.long
def test_its_run_measures_a_service_that_runs_already(tmp_path: Path, port: str) -> None:
    assert RUN_ENDPOINT in PAGE.read_text()
    reader = Reader(tmp_path)
    (tmp_path / DESIGN).mkdir()
    for file, _, text in BLOCK.findall(PAGE.read_text()):
        if file.startswith(DESIGN):
            reader.write(file, text)
    code, output = reader.do(RUN_ENDPOINT.replace("8000", port))
    assert code in (0, 1), output
    result = json.loads((tmp_path / f"results/{DESIGN}/latest/result.json").read_text())
    endpoint = result["endpoint"]
    assert endpoint["target"] == f"http://localhost:{port}"
    assert endpoint["arms"]["target"]["requests"] > 200
    assert endpoint["arms"]["target"]["errors"] == 0
