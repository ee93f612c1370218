"""The testbed: its verdicts, what ends it, fleets that are gone, files of hosts."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.design import load_design
from experiments.record import manifest
from experiments.testbed.agents import GONE, Agent, AgentError
from experiments.testbed.fleet import revert_everything
from experiments.testbed.held_settings import HeldSettings
from experiments.testbed.platforms.hosts.hosts_file import read
from experiments.testbed.platforms.hosts.platform import HostsPlatform
from experiments.testbed.platforms.terraform import Progress, Stack
from experiments.testbed.signals import ending_signals
from experiments.testbed.testbed import Testbed
from experiments.tests.fake_fleet import fake_fleet
from experiments.tests.quiet import NOBODY
from experiments.tests.started import disposition


def test_the_commit_of_a_run_is_the_one_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit() -> str:
        author = ("-c", "user.name=one", "-c", "user.email=one@example.org")
        arguments = ("commit", "--quiet", "--allow-empty", "--message", "another")
        subprocess.run(["git", "-C", str(tmp_path), *author, *arguments], check=True)
        command = ("git", "-C", str(tmp_path), "rev-parse", "HEAD")
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    first_commit = commit()
    monkeypatch.setattr(manifest, "ROOT", tmp_path)
    platform: Any = SimpleNamespace(name="local")
    narrator: Any = SimpleNamespace()
    testbed = Testbed(load_design("mediawiki-noisy"), tmp_path, platform, narrator, ["run"])
    commit()
    testbed.folder.mkdir()
    testbed.write(cut_short=False)
    commit_id = json.loads((testbed.folder / "manifest.json").read_text())["versions"]["commit"]
    assert first_commit.startswith(commit_id)


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
    with pytest.raises(AgentError) as caught:
        Agent("web-1", client).renew("f1", 5.0)
    assert caught.value.status in GONE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_ends_though_its_caller_ignored_the_signal(number: signal.Signals) -> None:
    with (
        disposition(number, signal.SIG_IGN),
        ending_signals(print),
        pytest.raises(KeyboardInterrupt),
    ):
        signal.raise_signal(number)


def test_each_signal_is_said_at_once_also_where_the_terminal_is_gone() -> None:
    messages: list[str] = []
    with ending_signals(messages.append), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert len(messages) == 1

    def gone(_: str) -> None:
        raise BrokenPipeError

    with ending_signals(gone), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_under_nohup_a_command_goes_on_when_its_terminal_is_gone() -> None:
    with disposition(signal.SIGHUP, signal.SIG_IGN), ending_signals(print):
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


class RangeTaken(Stack):
    """A stack whose network is gone, and whose provider refuses to plan it anew: another fleet has
    its range."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "shop")
        self.calls: list[list[str]] = []
        (directory / "main.tf").write_text("")
        self.state_directory.mkdir(parents=True)
        (self.state_directory / "fleet.tfvars").write_text('experiment = "shop"')
        (self.state_directory / "terraform.tfstate").write_text('{"resources": []}')

    def _init(self) -> None:
        pass

    def _stream(self, arguments: Sequence[str], progress: Progress) -> None:
        self.calls.append(list(arguments))
        progress("destroying")
        if "-refresh=false" not in arguments:
            raise EnvironmentMissing("terraform destroy", expected="a free range", got="taken")

    def _delete_workspace(self) -> None:
        pass


def test_a_fleet_that_is_gone_and_whose_range_another_has_is_forgotten(tmp_path: Path) -> None:
    stack = RangeTaken(tmp_path)
    assert stack.remove(lambda _said: None, lambda: ["network sc-shop-data"]) == [
        "network sc-shop-data"
    ]
    assert len(stack.calls) == 2
    assert not stack.state_directory.exists()


ONE = '[[hosts]]\nname = "a"\naddress = "10.0.0.1"\ndata_interface = "eth1"\ncores = 4\n'


def _file(folder: Path, text: str) -> Path:
    file = folder / "hosts.toml"
    file.write_text(text)
    return file


def test_paths_are_from_the_files_own_folder_and_defaults_are_ssh_s(tmp_path: Path) -> None:
    hosts = read(_file(tmp_path, f'known_hosts = "known"\nkey = "/keys/fleet"\n{ONE}'))
    assert (hosts.known_hosts, hosts.key) == (str(tmp_path / "known"), "/keys/fleet")
    (host,) = hosts.hosts
    assert (host.port, host.user, host.sysrq, host.power_off) == (22, "root", False, None)
    assert read(_file(tmp_path, ONE)).key is None


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "hosts"), (ONE + ONE, "name a is there twice"),
     (ONE + ONE.replace('"a"', '"b"'), "address 10.0.0.1 is there twice"),
     (ONE + 'power_off = "ipmitool off"\n', "power_off and power_on come together"),
     (ONE + "colour = 1\n", "colour"), (ONE.replace("10.0.0.1", "-oProxyCommand=sh"), "address"),
     (ONE + 'user = "-oProxyCommand=sh"\n', "user"), ("ttl_hours = 200\n" + ONE, "ttl_hours"),
     ("hosts = [", "hosts.toml")],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read(_file(tmp_path, text))
    assert says in f"{caught.value.place} {caught.value.got}"


def test_down_where_no_hosts_were_ever_named_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stack").mkdir()
    platform = HostsPlatform("wiki", stack=tmp_path / "stack")
    assert (platform.remaining(), platform.down(print)) == ([], [])
    platform_with_hosts = HostsPlatform("wiki", tmp_path / "mine.toml", stack=tmp_path / "stack")
    with pytest.raises(InputError, match=r"mine\.toml"):
        platform_with_hosts.down(print)
