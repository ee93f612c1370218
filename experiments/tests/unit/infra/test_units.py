"""Units on a host (infra/boot/units.py): ours comes back after a boot, the distribution's do not,
and nothing that an installation started outlives it."""

from __future__ import annotations

import configparser
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from experiments.paths import ROOT
from experiments.tests.load_fixture import alive
from experiments.tests.started import executable

NOWHERE = Path("/dev/null")


@pytest.fixture
def units(boot: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, on a host without systemd."""
    module = boot("units")
    monkeypatch.setattr(module, "systemd_runs", lambda: False)
    return module


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """/etc of a host whose owner enabled ssh, and masked a unit."""
    etc = tmp_path / "etc"
    _enable(etc, "ssh.service")
    (etc / "systemd/system/their.service").symlink_to(NOWHERE)
    return etc


def _enable(etc: Path, name: str, target: str = "multi-user.target") -> None:
    link = etc / f"systemd/system/{target}.wants" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"/usr/lib/systemd/system/{name}")


def _masked(etc: Path) -> set[str]:
    links = [path for path in (etc / "systemd/system").iterdir() if path.is_symlink()]
    return {link.name for link in links if link.readlink() == NOWHERE}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that append their arguments to `said`; systemd-run also runs them."""
    folder = tmp_path / "programs"
    folder.mkdir()
    _program(folder, "systemctl", "")
    _program(folder, "systemd-run", 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"')
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def _program(folder: Path, name: str, does: str) -> Path:
    return executable(folder / name, f'#!/bin/sh\necho "{name} $*" >>{folder}/said\n{does}\n')


def _said(programs: Path) -> list[str]:
    return (programs / "said").read_text().splitlines()


def test_the_machine_s_unit_can_be_enabled_so_that_a_boot_starts_it(
    units: ModuleType, tmp_path: Path
) -> None:
    units.write_unit("/opt/sparecraft/bin/nodeagent", tmp_path)
    unit = configparser.ConfigParser(strict=False)
    unit.read(tmp_path / units.MACHINE)
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    assert unit["Service"]["Restart"] == "always"


def test_what_a_package_enables_is_masked_and_what_was_there_is_not(
    units: ModuleType, etc: Path, tmp_path: Path
) -> None:
    with units.new_units_masked(etc, tmp_path / "state"):
        _enable(etc, "redis-server.service")
        _enable(etc, "phpsessionclean.timer", "timers.target")
        (etc / "rc3.d").mkdir()
        (etc / "rc3.d/S01influxdb").symlink_to("../init.d/influxdb")
    new = {"redis-server.service", "phpsessionclean.timer", "influxdb.service"}
    assert _masked(etc) == {"their.service", *new}
    units.unmask(etc, tmp_path / "state")
    assert _masked(etc) == {"their.service"}


def test_a_unit_that_the_owner_masked_meanwhile_stays_so(
    units: ModuleType, etc: Path, tmp_path: Path
) -> None:
    with units.new_units_masked(etc, tmp_path / "state"):
        _enable(etc, "redis-server.service")
    unit = etc / "systemd/system/redis-server.service"
    unit.unlink()
    unit.write_text("[Service]\nExecStart=/usr/bin/true\n")
    units.unmask(etc, tmp_path / "state")
    assert unit.is_file()


def test_an_installation_that_fails_masks_what_it_enabled(
    units: ModuleType, etc: Path, tmp_path: Path
) -> None:
    def install() -> None:
        with units.new_units_masked(etc, tmp_path / "state"):
            _enable(etc, "redis-server.service")
            subprocess.run(["false"], check=True)

    with pytest.raises(subprocess.CalledProcessError):
        install()
    assert _masked(etc) == {"their.service", "redis-server.service"}


_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import units
etc, state = Path(sys.argv[2]) / "etc", Path(sys.argv[2]) / "state"
with units.new_units_masked(etc, state):
    (etc / "systemd/system/multi-user.target.wants/redis-server.service").symlink_to("/x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_installation_enabled_is_masked_by_the_next(
    units: ModuleType, etc: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _KILLED, str(ROOT / "infra/boot"), str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with units.new_units_masked(etc, tmp_path / "state"):
        _enable(etc, "memcached.service")
    assert _masked(etc) == {"their.service", "memcached.service", "redis-server.service"}


def test_what_a_step_left_running_ends_with_it_also_where_it_fails(
    units: ModuleType, tmp_path: Path
) -> None:
    step = _program(tmp_path, "step", f"sleep 1000 & echo $! >{tmp_path}/pid; exit 3")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        units.run_step(step)
    assert failed.value.returncode == 3
    assert alive([int((tmp_path / "pid").read_text())]) == []


@pytest.mark.parametrize("code", [0, 3])
def test_with_systemd_a_step_runs_in_a_scope_that_is_killed_before_and_after(
    units: ModuleType, programs: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(units, "systemd_runs", lambda: True)
    step = _program(programs, "step", f"exit {code}")
    if code == 0:
        units.run_step(step)
    else:
        with pytest.raises(subprocess.CalledProcessError):
            units.run_step(step)
    kill = f"systemctl kill --signal=KILL {units.SCOPE}"
    lines = _said(programs)
    (scope_call,) = [line for line in lines if line.startswith("systemd-run")]
    assert {"--scope", f"--unit={units.SCOPE}"} <= set(scope_call.split())
    start = lines.index(scope_call)
    assert kill in lines[:start]
    assert kill in lines[lines.index("step ") :]


@pytest.mark.usefixtures("units")
def test_units_of_packages_are_stopped_before_the_purge_but_not_of_one_that_stays(
    programs: Path,
) -> None:
    files = {
        "influxdb": "/usr/lib/systemd/system/influxdb.service\n/etc/init.d/influx-old\n/etc/x",
        "redis": "/lib/systemd/system/redis@.service\n/usr/share/doc/redis/a.service",
        "cache": "/usr/lib/systemd/system/cache.service",
    }
    cases = "".join(f"*-L*{name}*) echo '{text}';; " for name, text in files.items())
    files_query = f'for one in "$@"; do case "-L $one" in {cases}esac; done'
    needs = r"printf 'cluster\tinstalled\t, cache (>= 1)\n'"
    status = "printf 'dash 1 installed\\n'"
    _program(
        programs,
        "dpkg-query",
        f'case "$*" in *Depends*) {needs};; *Status*) {status};; *) {files_query};; esac',
    )
    _program(programs, "dpkg", "")
    importlib.import_module("back").purge(["influxdb", "redis", "cache"])
    lines = _said(programs)
    purge_at = next(at for at, line in enumerate(lines) if line.startswith("dpkg --purge"))
    stops = [(at, line.split()[2]) for at, line in enumerate(lines) if line.startswith("systemctl")]
    assert {name for _, name in stops} == {
        *("influxdb.service", "influx-old.service", "redis@*.service")
    }
    assert all(at < purge_at for at, _ in stops)


def test_a_role_is_installed_with_its_servers_masked_and_ended(
    units: ModuleType, etc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = importlib.import_module("role")
    home, state = tmp_path / "home", tmp_path / "state"
    scripts = home / "bundle/roles/tst"
    scripts.mkdir(parents=True)
    wants = etc / "systemd/system/multi-user.target.wants"
    _program(scripts, "install.sh", f"ln -s /x {wants}/tst.service; ln -s /x {wants}/tst.socket")
    _program(scripts, "make-content.sh", f"sleep 1000 & echo $! >{tmp_path}/pid")
    monkeypatch.setattr(role, "HOME", home)
    monkeypatch.setattr(role, "DONE", state / "done")
    starts_nothing = partial(role.packages_start_nothing, tmp_path / "policy")
    monkeypatch.setattr(role, "packages_start_nothing", starts_nothing)
    monkeypatch.setattr(role, "new_units_masked", partial(units.new_units_masked, etc, state))
    role.install_role("tst", None)
    assert _masked(etc) == {"their.service", "tst.service", "tst.socket"}
    assert alive([int((tmp_path / "pid").read_text())]) == []
    assert (state / "done").exists()


@pytest.mark.usefixtures("units")
def test_the_timer_of_the_end_is_stopped_before_its_file_goes(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = importlib.import_module("host")
    monkeypatch.setattr(host, "systemd_runs", lambda: True)
    monkeypatch.setattr(host, "UNITS", tmp_path)
    timer = tmp_path / "sparecraft-host-end.timer"
    timer.touch()
    _program(programs, "systemctl", f'[ -e {timer} ] || echo "{timer} is gone" >>{programs}/said')
    host._disarm_end()
    lines = _said(programs)
    assert (
        f"systemctl disable --quiet --now {timer.name}" in lines[: lines.index(f"{timer} is gone")]
    )
    assert not timer.exists()
