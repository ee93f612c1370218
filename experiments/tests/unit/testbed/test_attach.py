"""A fleet that somebody else applied: what is taken for one, and that it stays as it is."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.design import load_design
from experiments.design.inventory import Identity, Inventory
from experiments.testbed import attach as attaching
from experiments.testbed.agents import Arbiter
from experiments.testbed.attach import attach, read_outputs
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.attached import AttachedLocalFleet
from experiments.testbed.testbed import Testbed
from experiments.tests.applied_fleet import IDENTITY, fleet, outputs
from experiments.tests.called import refusal
from experiments.tests.fake_fleet import fake_fleet
from experiments.tests.quiet import NOBODY
from experiments.tests.spec_fixture import TFVARS, TOML, write


def kept(folder: Path, content: Any) -> str:
    file = folder / "fleet.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


@pytest.mark.parametrize("said", [outputs(), {"fleet": fleet(), "identity": IDENTITY}])
def test_a_file_of_outputs_is_a_fleet_with_or_without_what_terraform_adds(
    tmp_path: Path, said: Any
) -> None:
    fleet_outputs = read_outputs(kept(tmp_path, said))
    assert fleet_outputs.fleet.experiment == "mediawiki-noisy"
    assert fleet_outputs.identity.influxdb_login == "sparecraft:secret"


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ({}, "fleet"),
        ([], "fleet"),
        ({"fleet": outputs()["fleet"]}, "identity"),
        (fleet(), "identity"),  # `terraform output -json fleet`
        ({"fleet": {"experiment": "x"}, "identity": IDENTITY}, "fleet"),
        ({"fleet": fleet(), "identity": {"ca_certificate_pem": "ca"}}, "identity"),
    ],
)
def test_the_part_that_is_missing_is_named(tmp_path: Path, said: Any, missing: str) -> None:
    with pytest.raises(InputError) as caught:
        read_outputs(kept(tmp_path, said))
    assert caught.value.place.endswith(f": {missing}")


def test_no_key_is_told_of_outputs_that_are_wrong(tmp_path: Path) -> None:
    wrong = {**IDENTITY, "client_private_key_pem": ["very secret"]}
    with pytest.raises(InputError) as caught:
        read_outputs(kept(tmp_path, {"fleet": fleet(), "identity": wrong}))
    assert "very secret" not in str(caught.value)


def test_a_file_that_is_not_there_too_long_or_no_json_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (str(tmp_path / "absent"), kept(tmp_path, "no JSON"), kept(tmp_path, "[" * 10_000)):
        with pytest.raises(InputError):
            read_outputs(name)
    monkeypatch.setattr(attaching, "_BYTES_MAX", 10)
    with pytest.raises(InputError):
        read_outputs(kept(tmp_path, outputs()))


@pytest.mark.parametrize(
    "changed", [{"experiment": "other"}, {"platform": "ec2"}, {"platform": "x"}]
)
def test_a_fleet_that_the_design_cannot_measure_from_here_is_refused(
    tmp_path: Path, changed: dict[str, str]
) -> None:
    design = load_design(write(tmp_path / "shop"))
    with pytest.raises(InputError) as caught:
        attach(kept(tmp_path, outputs(**changed)), design)
    assert caught.value.place.startswith("--attach")


def test_a_design_that_makes_machines_anew_is_refused(tmp_path: Path) -> None:
    toml = (
        TOML.partition("[interference]")[0]
        + '[arms.baseline]\n[failover]\n[design]\norder = "A"\nrepeats = 1\n'
    )
    folder = write(
        tmp_path / "shop", TFVARS.replace("on-prem", "cloud").replace("standby = 1, ", ""), toml
    )
    with pytest.raises(InputError) as caught:
        attach(kept(tmp_path, outputs(scheme="cloud")), load_design(folder))
    assert "[failover]" in caught.value.got


def attached(
    monkeypatch: pytest.MonkeyPatch, *, states: Callable[[str], str] = lambda _: "running",
    **changed: Any,
) -> AttachedLocalFleet:  # fmt: skip
    monkeypatch.setattr(docker, "check", lambda *_: None)
    monkeypatch.setattr(docker, "state", lambda name, *_: states(name))
    monkeypatch.setattr(docker, "limits", lambda name, *_: (1.0 if "-db-" in name else 0.6, 512.0))
    inventory = Inventory.model_validate_json(json.dumps(fleet(**changed)))
    return AttachedLocalFleet(inventory, Identity(**IDENTITY))


def test_the_fleet_of_the_design_is_taken_and_nothing_of_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = attached(monkeypatch)
    platform.check()
    assert platform.up(write(tmp_path) / "fleet.tfvars", lambda _: None) == platform.inventory()
    assert platform.down(lambda _: None) == platform.remaining() == []
    with pytest.raises(EnvironmentMissing):
        platform.replace("web-1", lambda _: None)


def test_a_machine_that_does_not_run_is_named_before_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = {"web-2": "exited", "web-5": "created"}  # the last one is a standby

    def state(name: str) -> str:
        return states.get(name[-5:], "running")

    with pytest.raises(EnvironmentMissing) as caught:
        attached(monkeypatch, states=state).check()
    assert caught.value.got == "web-2 exited"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("nodes = 4, standby = 1", "nodes = 5, standby = 1", "web-6"),
        ("nodes = 4, standby = 1", "nodes = 4", "web-5"),
        ("nodes = 4, standby = 1", "nodes = 5", "web-5"),
        ('scheme     = "on-prem"', 'scheme     = "cloud"', "scheme"),
        ('role = "mediawiki"', 'role = "apache"', "web-1"),
        ("cpus = 0.6", "cpus = 0.5", "web-1"),
        ("cpus = 0.6, memory_mb = 512", "cpus = 0.6, memory_mb = 256", "web-1"),
        ("  db  = { tokens = 12 }\n", "", "arbiter-db"),
    ],
)
def test_another_fleet_than_the_designs_is_refused_with_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, named: str
) -> None:
    assert old in TFVARS
    folder = write(tmp_path, TFVARS.replace(old, new))
    with pytest.raises(EnvironmentMissing) as caught:
        attached(monkeypatch).up(folder / "fleet.tfvars", lambda _: None)
    assert named in caught.value.got


def test_an_attached_fleets_arbiters_are_as_they_were_and_it_stays(tmp_path: Path) -> None:
    calls: list[tuple[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append((request.url.path, json.loads(request.content)))
        return httpx.Response(200, json={})

    client = httpx.Client(base_url="http://arbiter", transport=httpx.MockTransport(answer))
    platform: Any = SimpleNamespace(name="local", is_attached=True)  # down would be an error
    testbed = Testbed(load_design("mediawiki-noisy"), tmp_path, platform, NOBODY, ["run"])
    testbed._connected = fake_fleet({}, {"web": Arbiter("arbiter-web", client)})
    testbed._applied = True
    compare = {"mode": "off", "bytes_max": 9}
    testbed._arbiters_before = {
        "web": {"policy": "tad", "tokens": 3, "replicas": 2, "compare": compare}
    }
    testbed.collect()
    testbed.remove(keep=False)
    assert calls == [("/v1/policy", {"policy": "tad", "tokens": 3}), ("/v1/compare", compare),
                   ("/v1/replicas", {"replicas": 2})]  # fmt: skip
    assert testbed.is_removed


@pytest.mark.parametrize(
    ("design", "more"),
    [
        ("mediawiki-noisy", ["--keep"]),
        ("mediawiki-noisy", ["--platform", "ec2"]),
        ("mediawiki-noisy", ["--close"]),
        ("bitflips-kernels", []),  # a kind without a fleet
    ],
)
def test_what_needs_a_fleet_that_is_made_or_none_is_refused_beside_attach(
    tmp_path: Path, design: str, more: list[str]
) -> None:
    error = refusal("run", design, "--attach", kept(tmp_path, outputs()), *more)
    assert (error.place, error.exit_code) == ("--attach", 2)
