"""`sparecraft` on EC2 as a user calls it, with moto: lists, questions, refusals and removals."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from core.errors import InputError
from experiments.paths import ROOT
from experiments.testbed.platforms.ec2 import resources
from experiments.testbed.platforms.ec2.aws import Aws
from experiments.tests.aws import REGION
from experiments.tests.called import COMMAND, answer, call, refusal
from experiments.tests.ec2_fixture import PAST, MadeFleet, instance, network, whole_fleet

pytestmark = pytest.mark.usefixtures("aws_account")
SMALL = str(ROOT / "experiments" / "tests" / "designs" / "small")
LATER = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"


def test_reap_lists_what_outlived_its_time_and_removes_it_when_asked_and_answered() -> None:
    old_fleet = whole_fleet("tst-old", PAST)
    whole_fleet("tst-young", LATER)
    young_ids = {resource.id for resource in resources.find(Aws(REGION), "tst-young")}
    result = call("reap", "--json")
    assert result.exit_code == 1, "something has outlived"
    report = json.loads(result.stdout)
    assert {row["experiment"] for row in report["outlived"]} == {"tst-old"}
    assert old_fleet.ids["VPC"][0] in {row["id"] for row in report["outlived"]}
    assert (report["removed"], report["region"]) == ([], REGION)
    refused = refusal("reap", "--remove")
    assert isinstance(refused, InputError)
    assert "--yes" in refused.hint
    assert resources.find(Aws(REGION), "tst-old")
    report = answer("reap", "--remove", "--yes")
    assert len(report["removed"]) == len(report["outlived"]) > 10
    assert {resource.id for resource in resources.find(Aws(REGION))} == young_ids, (
        "and nothing of another"
    )
    assert call("reap").exit_code == 0


def test_list_shows_the_account_s_fleets_with_their_end() -> None:
    fleet = MadeFleet("tst-a", LATER)
    instance(fleet, network(fleet), "web-1")
    fleets = answer("list", "--platform", "ec2")["fleets"]
    assert [(row["experiment"], row["machines"], row["running"]) for row in fleets] == [
        ("tst-a", 1, 1)
    ]
    assert fleets[0]["expires"] == LATER


def test_down_removes_a_fleet_that_no_state_knows() -> None:
    whole_fleet("tst-old", PAST)
    whole_fleet("tst-young", LATER)
    result = call("down", "tst-young", "--platform", "ec2", "--region", REGION)
    assert result.exit_code == 0, result.output
    assert "swept VPC" in result.output
    assert {resource.experiment for resource in resources.find(Aws(REGION))} == {"tst-old"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", SMALL, "--region", REGION),
        ("up", SMALL, "--region", REGION),
        ("up", SMALL, "--ttl-hours", "2"),
        ("up", SMALL, "--spot"),
        ("down", "tst", "--region", REGION),
        ("list", "--region", REGION),
    ],
)
def test_options_of_ec2_are_refused_for_the_local_platform(arguments: tuple[str, ...]) -> None:
    refused = refusal(*arguments)
    assert refused.exit_code == 2
    assert "--platform ec2" in refused.expected


@pytest.mark.parametrize("arguments", [("reap",), ("up", SMALL, "--platform", "ec2")])
def test_no_credentials_and_a_wrong_region_end_in_one_message(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    region_error = refusal(*arguments, "--region", "eu-wset-1")
    assert (region_error.exit_code, region_error.hint) == (2, "Did you mean eu-west-1?")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    pack_calls: list[object] = []
    monkeypatch.setattr(
        "experiments.testbed.platforms.ec2.bundle.pack", lambda *_: pack_calls.append(0)
    )
    refused = refusal(*arguments)
    assert refused.exit_code == 3
    assert "AWS credentials" in refused.place
    assert "AWS_PROFILE" in refused.hint
    assert pack_calls == []


def test_tuning_on_ec2_elsewhere_than_on_its_load_machine_is_refused() -> None:
    refused = refusal("tune", SMALL, "--target", "p95", "--platform", "ec2")
    assert refused.exit_code == 3
    assert "first load machine" in refused.expected
    assert "sparecraft up" in refused.hint


def _at_a_terminal(answer: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output of `sparecraft` at a terminal where somebody types `answer`."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        os.write(master, answer.encode())
        output = b""
        try:
            while chunk := os.read(master, 4096):
                output += chunk
        except OSError:  # the other end is closed: Linux says EIO
            pass
        os.close(master)
    return process.returncode, output.decode()


def test_a_no_at_the_question_changes_nothing_and_a_yes_removes() -> None:
    whole_fleet("tst-old", PAST)
    code, output = _at_a_terminal("n\n", "reap", "--remove")
    assert code == 2, output
    assert f"from {REGION}?" in output
    assert "Nothing was changed" in output
    assert resources.find(Aws(REGION), "tst-old")
    code, output = _at_a_terminal("y\n", "reap", "--remove")
    assert code == 0, output
    assert resources.find(Aws(REGION)) == []
