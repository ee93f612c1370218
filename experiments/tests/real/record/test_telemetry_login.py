"""An InfluxDB that asks for user and password, addressed with them and without them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest

from core.errors import EnvironmentMissing, SparecraftError
from experiments.design.inventory import Identity
from experiments.record.telemetry import InfluxQuery, InfluxWriter, Point
from experiments.record.telemetry.bulk import deliver
from experiments.tests.called import call, refusal
from experiments.tests.fake_fleet import fake_fleet
from experiments.tests.influxdb import Influx
from experiments.tests.report_fixture import fake_run
from grafana.address import without_login

PASSWORD = "of-this-test"
LOGIN = f"sparecraft:{PASSWORD}"
FIRST = f"CREATE USER sparecraft WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES"
POINTS = [Point("sample", {"run": "r"}, {"number": n}, n) for n in range(1, 10)]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with one user, without user and password."""
    server = Influx(tmp_path_factory.mktemp("influx"))
    with patch.dict(os.environ, INFLUXDB_HTTP_AUTH_ENABLED="true"):
        server.start()
    reply = httpx.post(f"{server.url}/query", params={"q": FIRST}, trust_env=False, timeout=60.0)
    assert reply.status_code == 200
    yield server.url
    server.kill()


@pytest.fixture(scope="module")
def full(bare: str) -> str:
    return bare.replace("//", f"//{LOGIN}@")


@pytest.fixture(params=["", "sparecraft:wrong@", "other:of-this-test@"])
def refused(bare: str, request: pytest.FixtureRequest) -> str:
    return bare.replace("//", f"//{request.param}")


def test_a_fleets_identity_makes_the_address_for_its_clients() -> None:
    keys = ("ca_certificate_pem", "client_certificate_pem", "client_private_key_pem")
    identity = Identity(**dict.fromkeys(keys, "-"), influxdb_login=LOGIN)
    inventory = fake_fleet({}).inventory
    assert identity.influxdb(inventory) == f"http://{LOGIN}@198.19.0.5"
    assert without_login(identity.influxdb(inventory)) == inventory.endpoints.influxdb


def test_points_come_back_with_the_password_and_no_log_line_has_it(
    full: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert deliver(full, POINTS[:4]) == 4
    writer = InfluxWriter(full, tmp_path / "telemetry.lp")
    writer.write(POINTS[4:])
    assert writer.close(60).written == 5
    query = InfluxQuery(full)
    assert query.points("r") == {"sample": 9}
    with pytest.raises(EnvironmentMissing) as caught:
        query.rows("SELEKT")
    query.close()
    assert "POST" in caplog.text
    assert PASSWORD not in caplog.text + str(caught.value)


def test_without_the_password_points_wait_and_questions_are_refused(
    refused: str, tmp_path: Path
) -> None:
    writer = InfluxWriter(refused, tmp_path / "telemetry.lp")
    writer.write(POINTS)
    stats = writer.close(2)
    assert (stats.written, stats.spooled, stats.lost) == (0, 9, 0)
    assert stats.last_error.startswith("HTTP 401")
    query = InfluxQuery(refused)
    with pytest.raises(EnvironmentMissing, match=r"authori[sz]ation failed|credentials"):
        query.points("r")
    query.close()


def test_commands_take_the_password_in_the_address_and_do_not_show_it(
    full: str, bare: str, tmp_path: Path
) -> None:
    folder = str(fake_run(measure_s=40.0).write(tmp_path / "run"))
    results = [call("replay", folder, "--influxdb", full, *options) for options in ([], ["--json"])]
    results.append(call("watch", "--influxdb", full, "--once"))
    results.append(call("watch", "--influxdb", full, "--json"))
    assert [result.exit_code for result in results] == [0] * 4
    assert bare in results[0].output
    assert [result.output for result in results if PASSWORD in result.output] == []


def test_commands_say_what_to_do_where_it_is_missing(refused: str, tmp_path: Path) -> None:
    folder = str(fake_run(measure_s=40.0).write(tmp_path / "run"))
    commands = (("replay", folder), ("watch", "--once"))
    errors: list[SparecraftError] = [
        refusal(*arguments, "--influxdb", refused) for arguments in commands
    ]
    for error in errors:
        assert "http://USER:PASSWORD@" in error.hint
        assert "wrong" not in str(error)
        assert PASSWORD not in str(error)
