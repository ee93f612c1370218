"""The policy that keeps packages from starting services is there while they are installed only."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

import pytest

from experiments.paths import ROOT
from experiments.tests.started import executable

FORBIDS = 101
_CALL = '. ci/lib.sh; policy_rc_d=$POLICY; install_quietly "$@"'


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return tmp_path / "policy-rc.d"


def _installed(policy: Path, apt_get: str) -> subprocess.CompletedProcess[bytes]:
    """`install_quietly` of ci/lib.sh, where apt-get is this script."""
    programs = policy.parent / "bin"
    text = f'#!/bin/sh\n[ "$1" = install ] || exit 0\n{apt_get}\n'
    executable(programs / "apt-get", text)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "POLICY": str(policy)}
    return subprocess.run(
        ["env", "--default-signal", "bash", "-c", _CALL, "bash", "nginx"], cwd=ROOT,
        env={**os.environ, **environment}, capture_output=True, check=False, timeout=60,
    )  # fmt: skip


def test_packages_are_forbidden_to_start_services_while_they_are_installed(policy: Path) -> None:
    process = _installed(policy, f'"{policy}" redis-server start; echo $? >"{policy}.said"')
    assert process.returncode == 0, process.stderr
    assert int(Path(f"{policy}.said").read_text()) == FORBIDS
    assert not policy.exists()


def test_an_installation_that_fails_leaves_no_policy(policy: Path) -> None:
    assert _installed(policy, "exit 100").returncode == 100
    assert not policy.exists()


@pytest.mark.parametrize("name", ["HUP", "INT", "TERM"])
def test_an_installation_that_is_interrupted_leaves_no_policy(policy: Path, name: str) -> None:
    process = _installed(policy, f'test -e "{policy}" && kill -s {name} $PPID')
    assert process.returncode == 128 + signal.Signals[f"SIG{name}"]
    assert not policy.exists()


def test_the_policy_that_a_killed_installation_left_is_removed_by_the_next(policy: Path) -> None:
    assert _installed(policy, "kill -s KILL $PPID").returncode != 0
    assert policy.exists()
    assert _installed(policy, "exit 0").returncode == 0
    assert not policy.exists()


@pytest.mark.parametrize("apt_get", ["exit 0", "exit 100"])
def test_somebody_else_s_policy_is_left_alone(policy: Path, apt_get: str) -> None:
    policy.write_text("#!/bin/sh\nexit 0\n")
    _installed(policy, apt_get)
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"


@pytest.fixture
def on_a_host(
    boot: Callable[[str], ModuleType],
) -> Callable[[Path], AbstractContextManager[None]]:
    """The same of infra/boot/role.py, which installs roles on hosts and instances."""
    manager: Callable[[Path], AbstractContextManager[None]] = boot("role").packages_start_nothing
    return manager


def test_a_role_s_installation_that_fails_leaves_no_policy_on_the_host(
    policy: Path, on_a_host: Callable[[Path], AbstractContextManager[None]]
) -> None:
    def install() -> None:
        with on_a_host(policy):
            assert subprocess.run([policy, "nginx", "start"], check=False).returncode == FORBIDS
            subprocess.run(["false"], check=True)

    with pytest.raises(subprocess.CalledProcessError):
        install()
    assert not policy.exists()


def test_a_host_s_own_policy_is_left_alone_and_one_of_a_killed_installation_is_not(
    policy: Path, on_a_host: Callable[[Path], AbstractContextManager[None]]
) -> None:
    with on_a_host(policy):
        text = policy.read_text()
    policy.write_text(text)
    with on_a_host(policy):
        pass
    assert not policy.exists()
    policy.write_text("#!/bin/sh\nexit 0\n")
    with on_a_host(policy):
        pass
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_no_role_leaves_a_policy_of_its_own() -> None:
    """On a host that would overwrite its owner's."""
    scripts = [*ROOT.glob("infra/roles/*/*.sh"), *ROOT.glob("experiments/**/roles/*/*.sh")]
    assert scripts
    assert [str(script) for script in scripts if "policy-rc.d" in script.read_text()] == []
