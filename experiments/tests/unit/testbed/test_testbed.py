"""Words of a run about itself, whatever goes on beside it."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from experiments.design import load_design
from experiments.record import manifest
from experiments.testbed.agents import GONE, Agent, AgentError
from experiments.testbed.fleet import revert_everything
from experiments.testbed.held_settings import HeldSettings
from experiments.testbed.testbed import Testbed
from experiments.tests.fake_fleet import fake_fleet
from experiments.tests.quiet import NOBODY


def test_the_commit_of_a_run_is_the_one_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit() -> str:
        who = ("-c", "user.name=one", "-c", "user.email=one@example.org")
        made = ("commit", "--quiet", "--allow-empty", "--message", "another")
        subprocess.run(["git", "-C", str(tmp_path), *who, *made], check=True)
        told = ("git", "-C", str(tmp_path), "rev-parse", "HEAD")
        return subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip()

    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    first = commit()
    monkeypatch.setattr(manifest, "ROOT", tmp_path)
    platform: Any = SimpleNamespace(name="local")
    narrator: Any = SimpleNamespace()
    testbed = Testbed(load_design("mediawiki-noisy"), tmp_path, platform, narrator, ["run"])
    commit()
    testbed.folder.mkdir()
    testbed.write(cut_short=False)
    told = json.loads((testbed.folder / "manifest.json").read_text())["versions"]["commit"]
    assert first.startswith(told)


def test_what_was_not_undone_is_judged_so_whatever_was_raised(tmp_path: Path) -> None:
    closed: list[str] = []

    def revert_all() -> None:
        raise ValueError("no JSON")

    agent = SimpleNamespace(revert_all=revert_all, close=lambda: closed.append("web-1"))
    fleet: Any = SimpleNamespace(
        agents={"web-1": agent}, standbys={}, arbiters={}, settings=HeldSettings()
    )
    platform: Any = SimpleNamespace(name="local")
    testbed = Testbed(load_design("mediawiki-noisy"), tmp_path, platform, NOBODY, ["run"])
    testbed._connected = fleet
    testbed.tally.planned = 1
    with pytest.raises(ValueError, match="no JSON"):
        testbed.collect()
    assert closed == ["web-1"]
    assert not testbed.verdicts.injection.to_json()["ok"]
    assert not testbed.verdicts.revert.to_json()["ok"]


@pytest.mark.parametrize(("struck", "ok"), [(set(), False), ({"web-1"}, True)])
def test_a_machine_that_lost_its_arms_settings_spoils_the_measurement_unless_it_was_struck(
    tmp_path: Path, struck: set[str], ok: bool
) -> None:
    platform: Any = SimpleNamespace(name="local")
    testbed = Testbed(load_design("mediawiki-noisy"), tmp_path, platform, NOBODY, ["run"])
    testbed._connected = fake_fleet({})
    testbed._connected.settings.lost.add("web-1")
    testbed.tally.struck |= struck
    testbed.collect()
    assert testbed.verdicts.measurement.to_json()["ok"] == ok


def test_what_an_agent_could_not_undo_is_a_verdict() -> None:
    undone = [{"kind": "settings", "error": "no room"}, {"kind": "net.loss"}]
    client = httpx.Client(
        base_url="http://agent",
        transport=httpx.MockTransport(lambda _: httpx.Response(200, json=undone)),
    )
    assert revert_everything(fake_fleet({"web-1": Agent("web-1", client)})) == [
        "web-1: settings: no room"
    ]


def test_a_refusal_has_the_status_by_which_a_lease_that_is_over_is_known() -> None:
    client = httpx.Client(
        base_url="http://agent",
        transport=httpx.MockTransport(lambda _: httpx.Response(GONE[0], json={"error": "none"})),
    )
    with pytest.raises(AgentError) as refused:
        Agent("web-1", client).renew("f1", 5.0)
    assert refused.value.status in GONE
