"""docs/your-own-service.md, followed to the letter: its files are written and its commands are run,
in their order, in an empty folder."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from experiments.tests.fleets import assert_served, nothing_stays
from experiments.tests.tutorial import (
    EXPERIMENT,
    GREETER,
    LOCUST_EXPERIMENT,
    LOCUST_RUN,
    PAGE,
    RUN,
    RUN_GREETER,
    Reader,
)


@pytest.fixture
def _nothing_stays() -> Iterator[None]:
    with nothing_stays(EXPERIMENT), nothing_stays(LOCUST_EXPERIMENT):
        yield


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_nothing_stays")
def test_its_run_measures_both_arms(reader: Reader) -> None:
    assert RUN in PAGE.read_text()
    code, output = reader.do(RUN)
    assert code in (0, 1), output
    result = json.loads((reader.folder / f"results/{EXPERIMENT}/latest/result.json").read_text())
    assert result["verdicts"]["revert"]["ok"], result["verdicts"]
    arms = result["compare"]["arms"]
    assert set(arms) == {"baseline", "replicated"}
    for arm in arms.values():
        assert_served(arm, requests=50)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_nothing_stays")
def test_its_locustfile_loads_a_fleet(reader: Reader) -> None:
    assert LOCUST_RUN in PAGE.read_text()
    code, output = reader.do(LOCUST_RUN)
    assert code in (0, 1), output
    folder = reader.folder / f"results/{LOCUST_EXPERIMENT}/latest"
    result = json.loads((folder / "result.json").read_text())
    assert result["verdicts"]["revert"]["ok"], result["verdicts"]
    arms = result["compare"]["arms"]
    for arm in arms.values():
        assert_served(arm, requests=300)
    requests = pl.read_parquet(folder / "requests.parquet")
    names = {"GET /flag/[code]", "GET /flag/[code], of two", "GET /flag/XX"}
    assert set(requests["name"]) == names
    tasks = [
        worker["tasks"]
        for block in result["compare"]["load"]["blocks"]
        for worker in block["workers"]
    ]
    assert len(tasks) == 4
    assert all(counts["raised"] == counts["not_started"] == 0 for counts in tasks), tasks


# Stand-ins for the page's public images, where this engine has none of that name and no registry.
STAND_INS = {
    "debian:bookworm-slim": "FROM sparecraft/base:bookworm\n",
    "memcached:1.6": """FROM sparecraft/base:bookworm
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends memcached >/dev/null
USER memcache
EXPOSE 11211
CMD ["memcached"]
""",
}


def _docker(*arguments: str, check: bool = True) -> int:
    process = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert not check or process.returncode == 0, process.stderr
    return process.returncode


@pytest.fixture
def _images(tmp_path: Path) -> Iterator[None]:
    missing_images = [name for name in STAND_INS if _docker("image", "inspect", name, check=False)]
    for image in missing_images:
        (tmp_path / "Dockerfile").write_text(STAND_INS[image])
        _docker("build", "-q", "--network", "host", "-t", image, str(tmp_path))
    with nothing_stays(GREETER):
        yield
    for image in missing_images:
        _docker("rmi", "--no-prune", image, check=False)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("_images")
def test_its_compose_file_is_measured(reader: Reader) -> None:
    """Both images run their program as their own user; the cache has counted each answer."""
    assert RUN_GREETER in PAGE.read_text()
    code, output = reader.do(RUN_GREETER)
    assert code in (0, 1), output
    result = json.loads((reader.folder / f"results/{GREETER}/latest/result.json").read_text())
    assert result["verdicts"]["revert"]["ok"], result["verdicts"]
    (arm,) = result["compare"]["arms"].values()
    assert_served(arm, requests=500)
