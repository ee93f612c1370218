"""`sparecraft run DESIGN --target URL` on a service of this process, from check to compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.tests.called import call, refusal
from experiments.tests.certificates import Authority
from experiments.tests.rest_shop import Shop, needs_ipv6, rest_shop

DESIGN = """\
[load]
arrivals = "constant"
rate_per_s = 20.0
connect_timeout_s = 60.0
response_timeout_s = 60.0

[[load.operations]]
name = "log in"
method = "POST"
path = "/login"
body = { json = { user = "ann" } }

[[load.operations]]
name = "gone"
path = "/gone"
expect = 404

[phases]
warm_up = 0.5
measure = 2

[slo]
p95_ms = 5000.0
p99_ms = 5900.0
max_error_share = 0.01

[design]
order = "A"
repeats = 2
"""


@pytest.fixture
def design(tmp_path: Path) -> Path:
    folder = tmp_path / "asked"
    folder.mkdir()
    write(folder)
    return folder


def write(design: Path, *changes: tuple[str, str]) -> None:
    """Write the design's file with these parts replaced."""
    text = DESIGN
    for old, new in changes:
        text = text.replace(old, new, 1)
    (design / "experiment.toml").write_text(text)


ONCE = ("repeats = 2", "repeats = 1")


def host_of(shop: Shop) -> str:
    return shop.url.split("//")[1].rstrip("/")


def run(design: Path, shop: Shop, *more: str) -> dict[str, Any]:
    """Result of a run, which is in the folder `results` beside the design."""
    results = str(design.parent / "results")
    url = shop.url.rstrip("/")
    result = call("run", str(design), "--target", url, "--results", results, "--json", *more)
    assert result.stdout.startswith("{"), result.output
    body: dict[str, Any] = json.loads(result.stdout)
    return body


def test_a_service_is_measured_reported_compared_and_not_planned_from(design: Path) -> None:
    with rest_shop() as shop:
        first, second = run(design, shop), run(design, shop)
    host = host_of(shop)
    assert {request.headers["Host"] for request in shop.asked} == {host}
    assert (first["kind"], first["platform"]) == ("endpoint", "endpoint")
    endpoint = first["endpoint"]
    assert endpoint["target"].endswith(host)
    assert [block["repeat"] for block in endpoint["blocks"]] == [0, 1]
    assert endpoint["arms"]["target"]["requests"] == 80
    assert endpoint["arms"]["target"]["error_share"] == 0.0
    assert set(endpoint["operations"]) == {"log in", "gone"}
    assert all(first["verdicts"][name]["ok"] for name in ("injection", "revert", "cleanup"))
    assert "availability" not in first["slo"]["asked"]
    folders = [
        str(design.parent / "results" / "asked" / result["run"]) for result in (first, second)
    ]
    page = Path(folders[0]) / "report.html"
    page.unlink()
    assert call("report", folders[0]).exit_code == 0
    html = page.read_text()
    assert endpoint["not_measured"] in html.replace("&#39;", "'")
    assert "availability 50" not in html, "nobody asked for it"
    side_by_side = json.loads(call("compare", *folders, "--json").stdout)["runs"]
    assert [column["service"] for column in side_by_side] == [endpoint["target"]] * 2
    assert refusal("plan", "--from", folders[0]).place == folders[0]


def test_a_redirect_to_another_host_is_an_answer_and_is_not_followed(design: Path) -> None:
    with rest_shop() as other_shop, rest_shop() as shop:
        shop.moved_to = f"{other_shop.url.rstrip('/')}/elsewhere"
        guard = "[guard]\nerror_share_max = 0.99\n\n[design]"
        write(design, ONCE, ("404", "200"), ("[design]", guard), ('"/gone"', '"/moved"'))
        endpoint = run(design, shop)["endpoint"]
        assert any(request.path == "/moved" for request in shop.asked)
        assert other_shop.asked == []
    operation = endpoint["operations"]["gone"]["target"]
    assert operation["reasons"] == {"status 302": operation["requests"]}


def test_figures_are_by_stage_where_the_load_has_stages(design: Path) -> None:
    stages = "stages = [{ duration = 1, target = 41 }, SPIKE]"
    stages = stages.replace("SPIKE", '{ duration = 1, target = 11, ramp = "step" }')
    write(design, ONCE, ("rate_per_s = 20.0", f"rate_per_s = 21.0\n{stages}"))
    with rest_shop() as shop:
        result = run(design, shop)
    measured = result["endpoint"]["stages"]
    assert [stage["arms"]["target"]["requests"] for stage in measured] == [31, 11]
    page = design.parent / "results" / "asked" / result["run"] / "report.html"
    assert all(f'id="{identity}"' in page.read_text() for identity in ("stage-table", "rate"))
    error = refusal("plan", "--from", str(page.parent))
    assert error.place == str(page.parent)


def test_https_is_asked_with_a_certificate_that_is_trusted_or_not_at_all(design: Path) -> None:
    authority = Authority(design.parent)
    write(design, ONCE)
    with rest_shop(authority.server("DNS:localhost")) as shop:
        shop.url = shop.url.replace("127.0.0.1", "localhost")
        url = shop.url.rstrip("/")
        results = design.parent / "results"
        error = refusal("run", str(design), "--target", url, "--results", str(results))
        assert "certificate" in error.got
        assert not results.exists()
        assert shop.asked == []
        (design / "ca.pem").write_bytes(authority.file.read_bytes())
        write(design, ONCE, ("[load]", '[load]\nca = "ca.pem"'))
        endpoint = run(design, shop)["endpoint"]
        assert (endpoint["target"], endpoint["insecure"]) == (url, False)
        assert endpoint["arms"]["target"]["errors"] == 0
        write(design, ONCE, ("[load]", "[load]\ninsecure = true"))
        assert run(design, shop)["endpoint"]["insecure"] is True


@needs_ipv6
@pytest.mark.parametrize("worker", ["native", "locust"])
def test_a_service_at_an_ipv6_address_is_asked(design: Path, worker: str) -> None:
    write(design, ONCE, ("[load]", f'[load]\nworker = "{worker}"'))
    with rest_shop(address="::1") as shop:
        endpoint = run(design, shop)["endpoint"]
    assert endpoint["target"] == shop.url.rstrip("/")
    assert endpoint["arms"]["target"]["errors"] == 0
    assert {request.headers["Host"] for request in shop.asked} == {host_of(shop)}


LOCUSTFILE = """\
from locust import FastHttpUser, HttpUser, task

class Slow(HttpUser):
    @task
    def one(self):
        self.client.put("/echo", "hello")

class Fast(FastHttpUser):
    @task
    def one(self):
        self.client.put("/echo", "hello")
"""


@pytest.mark.parametrize(
    ("address", "name"),
    [("127.0.0.1", "DNS:localhost"), pytest.param("::1", "IP:::1", marks=needs_ipv6)],
)
def test_a_locust_file_asks_a_service_by_https_and_by_its_name(
    design: Path, address: str, name: str
) -> None:
    authority = Authority(design.parent)
    (design / "ca.pem").write_bytes(authority.file.read_bytes())
    (design / "locustfile.py").write_text(LOCUSTFILE)
    operations = DESIGN[DESIGN.index("[[load.operations]]") : DESIGN.index("[phases]")]
    keys = '[load]\nca = "ca.pem"\nlocustfile = "locustfile.py"\nmax_in_flight = 50'
    write(design, ONCE, (operations, ""), ("[load]", keys))
    with rest_shop(authority.server(name), address) as shop:
        shop.url = shop.url.replace("127.0.0.1", "localhost")
        endpoint = run(design, shop)["endpoint"]
    assert endpoint["arms"]["target"]["errors"] == 0
    assert endpoint["arms"]["target"]["requests"] == 40
    assert {request.headers["Host"] for request in shop.asked} == {host_of(shop)}
    assert {request.headers["User-Agent"].split("/")[0] for request in shop.asked} == {
        "python-requests", "python",
    }  # fmt: skip


def test_a_service_that_fails_ends_the_run_and_what_was_measured_is_kept(design: Path) -> None:
    guard = "[guard]\nerror_share_max = 0.2\n\n[design]"
    write(design, ("404", "200"), ("measure = 2", "measure = 60"), ("[design]", guard))
    with rest_shop() as shop:
        results = str(design.parent / "results")
        url = shop.url.rstrip("/")
        error = refusal("run", str(design), "--target", url, "--results", results)
    assert "error_share_max" in error.got
    (result_file,) = (design.parent / "results" / "asked").glob("2*/result.json")
    assert json.loads(result_file.read_text())["stopped"]["condition"] == "error_share_max"


def test_a_host_that_may_not_be_asked_is_refused_before_anything_is_made(design: Path) -> None:
    results = design.parent / "results"
    for options in (
        ("--target", "http://203.0.113.7:80"),
        ("--target", "http://203.0.113.7:80", "--allow-host", "203.0.113.8"),
        ("--target", "http://no-such-host.invalid"),
        ("--target", "http://127.0.0.1:1", "--keep"),
        (),
    ):
        error = refusal("run", str(design), "--results", str(results), *options)
        assert error.place == "--target"
    assert not results.exists()
