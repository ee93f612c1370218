"""`[failover]` says what a fleet does about failed machines; what it cannot do is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.design import Design, load_design
from experiments.design.failover import mechanism
from experiments.design.schedule import crashes
from experiments.paths import ROOT

DESIGN = ROOT / "experiments" / "tests" / "designs" / "failover"


def _design(
    folder: Path, *, fleet: tuple[tuple[str, str], ...] = (), toml: tuple[str, str] = ("", "")
) -> Design:
    """The tests' design with replacements in its fleet, and one in its experiment."""
    for name, changes in (("fleet.tfvars", fleet), ("experiment.toml", (toml,))):
        text = (DESIGN / name).read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        (folder / name).write_text(text)
    return load_design(folder)


FAULT = (
    '[[faults]]\nkind = "machine.crash"\nselect = { machine = "web-1" }\nat_s = 1.0\nfor_s = 2.0\n'
)
CLOUD = ('"on-prem"', '"cloud"')
NO_STANDBY = ("standby       = 1", "standby       = 0")


def test_the_mechanism_follows_from_scheme_and_standbys(tmp_path: Path) -> None:
    design = _design(tmp_path)
    assert mechanism(design.fleet, "web") == "pf"
    assert mechanism(_design(tmp_path, fleet=(NO_STANDBY,)).fleet, "web") == "ara"
    for name in ("schemes-cloud", "schemes-ara", "schemes-pf", "crash-recovery"):
        built_in = load_design(name)
        assert mechanism(built_in.fleet, "web") in (name.removeprefix("schemes-"), "pf")


@pytest.mark.parametrize(
    ("fleet", "old", "new", "said"),
    [
        ((), "[failover]\n", "[failover]\nretries = 3\n",
         r"failover\.retries: .*keys heartbeat_s, misses"),
        ((), "[failover]\n", '[failover]\ntiers = ["db"]\n', "failover.tiers: .*the tiers web"),
        ((), "[failover]\n", '[failover]\ntiers = ["db"]\nneeded = { web = 1 }\n',
         r"failover.needed: .*one of failover.tiers \(db\)"),
        ((), "[failover]\n", "[failover]\nneeded = { db = 1 }\n", "needed.db: .*the tiers web"),
        ((), "[failover]\n", "[failover]\nneeded = { web = 3 }\n", "needed.web: .*at most its 2"),
        ((), "[failover]\n", "[failover]\nneeded = { web = 1 }\n",
         "needed.web: .*no active node is an extra one"),
        ((), "[failover]\n", "[failover]\nready_timeout_s = 0\n",
         "ready_timeout_s: .*greater than 0"),
        # A cloud's standbys and repairs, crashes faster than their detection, machine faults.
        ((CLOUD,), "", "", "no standbys in tier web"),
        ((CLOUD, NO_STANDBY), "", "", r"failover.repair_mean_s.*made anew, not repaired"),
        ((), "crash_mean_s = 15.0", "crash_mean_s = 1.5",
         r"more than heartbeat_s times misses \(1.5 s\)"),
        ((), "[failover]", f"{FAULT}[failover]", "no machine faults beside"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_or_contradict_fail_over_are_refused(
    tmp_path: Path, fleet: tuple[tuple[str, str], ...], old: str, new: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        _design(tmp_path, fleet=fleet, toml=(old, new))


def test_crashes_are_drawn_ahead_by_machine_and_grow_with_the_window() -> None:
    names = ["web-1", "web-2", "web-3"]
    short = crashes(names, 10.0, 5.0, 105.0, seed=7)
    longer = crashes(names, 10.0, 5.0, 1005.0, seed=7)
    assert short == tuple(crash for crash in longer if crash[0] < 105.0)
    assert longer == tuple(sorted(longer))
    assert all(5.0 <= at_s < 1005.0 for at_s, _ in longer)
    # 3 streams of 100 expected crashes each: five standard deviations around 300.
    assert 300 - 5 * 300**0.5 < len(longer) < 300 + 5 * 300**0.5
    only = tuple(crash for crash in longer if crash[1] == "web-2")
    assert crashes(["web-2"], 10.0, 5.0, 1005.0, seed=7) == only
