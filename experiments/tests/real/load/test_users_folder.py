"""Load that is sent from a user's folder, whose files may bear the names of ours or Locust's."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.tests.hostile import hostile
from experiments.tests.load_fixture import make_plan, run, shared
from experiments.tests.servers import serving


@pytest.mark.parametrize("workers", [1, 2])
def test_a_users_modules_and_locust_conf_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    (tmp_path / "mine").mkdir()
    folder = hostile(tmp_path / "mine")
    (folder / "locust.conf").write_text("run-time = 1s\n")
    monkeypatch.chdir(folder)
    with serving() as server:
        plan = shared(make_plan(server.url, ["good"] * 30, gap_s=0.1), workers)
        records, status = run(Path("out"), plan, worker="locust")
    assert status.state == "done"
    assert records["outcome"].to_list() == ["ok"] * 30
