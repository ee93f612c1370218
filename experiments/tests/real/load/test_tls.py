"""Requests over TLS to a real server on loopback, by each worker: whose certificate is trusted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.design.target import Target
from experiments.load.tls import PlanTls, check_answers, plan_tls
from experiments.tests.certificates import Authority
from experiments.tests.load_fixture import run
from experiments.tests.operations_fixture import LOG_IN, USERS, planned, read
from experiments.tests.rest_shop import Shop, rest_shop

of_each_worker = pytest.mark.parametrize("worker", ["native", "locust"])

BIG = """\
[[load.operations]]
name = "big"
method = "PUT"
path = "/echo"
body = { file = "big.txt" }
checks = [{ bytes_min = 200000, bytes_max = 200000 }]
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def target_of(shop: Shop, name: str = "shop.test") -> Target:
    port = int(shop.url.rstrip("/").rpartition(":")[2])
    return Target(scheme="https", host=name, port=port, address="127.0.0.1")


def asked(directory: Path, shop: Shop, tls: PlanTls, worker: str) -> pl.DataFrame:
    """The records of 2 s with 20 requests a second."""
    directory.mkdir(exist_ok=True)
    (directory / "big.txt").write_bytes(b"x" * 200_000)
    shop_design, target = read(directory, LOG_IN, BIG, keys=USERS), target_of(shop)
    plan = planned(shop_design, target.entry, 0.5, 1.5, target)
    records, status = run(directory / "load", replace(plan, tls=tls), worker=worker)
    assert status.state == "done", status
    return records


@of_each_worker
def test_a_trusted_server_is_asked_by_its_name(
    tmp_path: Path, authority: Authority, worker: str
) -> None:
    with rest_shop(authority.server("DNS:shop.test")) as shop:
        records = asked(tmp_path, shop, plan_tls("shop.test", authority.file, False), worker)
        hosts = {request.headers["Host"] for request in shop.asked}
    assert Counter(records["outcome"]) == {"ok": records.height}
    assert set(records["name"]) == {"log in", "big"}
    assert hosts == {target_of(shop).authority}


@of_each_worker
@pytest.mark.parametrize(
    ("name", "trusted", "reason"),
    [
        ("DNS:shop.test", False, "certificate: not trusted"),
        ("DNS:other.test", True, "certificate: of another name"),
    ],
)
def test_a_server_with_a_wrong_certificate_is_told_nothing(
    tmp_path: Path, authority: Authority, worker: str, name: str, trusted: bool, reason: str
) -> None:
    other_authority = Authority(tmp_path, "other")
    tls = plan_tls("shop.test", (authority if trusted else other_authority).file, False)
    with rest_shop(authority.server(name)) as shop:
        records = asked(tmp_path / "design", shop, tls, worker)
        assert shop.asked == []
    assert Counter(records["outcome"]) == {"connection_error": records.height}
    assert set(records["reason"]) == {reason}


@of_each_worker
def test_an_insecure_plan_takes_any_certificate(
    tmp_path: Path, authority: Authority, worker: str
) -> None:
    with rest_shop(authority.server("DNS:other.test")) as shop:
        records = asked(tmp_path, shop, plan_tls("shop.test", None, True), worker)
    assert Counter(records["outcome"]) == {"ok": records.height}


def test_a_wrong_certificate_is_found_before_anything_is_made(
    tmp_path: Path, authority: Authority
) -> None:
    trusted_tls = plan_tls("shop.test", authority.file, False)
    with rest_shop(authority.server("DNS:shop.test")) as shop:
        check_answers(target_of(shop), trusted_tls, 60.0)
        check_answers(target_of(shop), plan_tls("any", None, True), 60.0)
        untrusted_tls = plan_tls("shop.test", Authority(tmp_path, "other").file, False)
        with pytest.raises(InputError) as caught:
            check_answers(target_of(shop), untrusted_tls, 60.0)
        assert "certificate: not trusted" in caught.value.got
        with pytest.raises(InputError) as caught:
            check_answers(target_of(shop), plan_tls("else.test", authority.file, False), 60.0)
        assert "certificate: of another name" in caught.value.got
    with pytest.raises(EnvironmentMissing):
        check_answers(target_of(shop), trusted_tls, 60.0)


def test_a_service_without_tls_does_not_answer_https(authority: Authority) -> None:
    with rest_shop() as shop, pytest.raises(EnvironmentMissing):
        check_answers(target_of(shop), plan_tls("shop.test", authority.file, False), 5.0)


def test_a_file_of_no_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for file in (tmp_path / "ca.pem", tmp_path / "none.pem"):
        with pytest.raises(InputError) as caught:
            plan_tls("shop.test", file, False)
        assert str(file) in caught.value.place
