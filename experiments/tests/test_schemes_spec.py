"""`[failover]` says what a fleet does about failed machines; what it cannot do is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.design import Design, load_design
from experiments.design.failover import mechanism
from experiments.design.schedule import crashes
from experiments.errors import InputError

DESIGN = Path(__file__).parent / "designs" / "failover"


def _design(tmp_path: Path, *, fleet: tuple[str, str] = ("", ""), toml: str = "") -> Design:
    """The tests' design with a replacement in its fleet, and lines more in [failover]."""
    tfvars = (DESIGN / "fleet.tfvars").read_text()
    assert fleet[0] in tfvars
    (tmp_path / "fleet.tfvars").write_text(tfvars.replace(*fleet) if fleet[0] else tfvars)
    text = (DESIGN / "experiment.toml").read_text()
    (tmp_path / "experiment.toml").write_text(text.replace("[failover]\n", f"[failover]\n{toml}\n"))
    return load_design(tmp_path)


def test_the_mechanism_follows_from_scheme_and_standbys(tmp_path: Path) -> None:
    design = _design(tmp_path)
    assert mechanism(design.fleet, "web") == "pf"
    ara = _design(tmp_path, fleet=("standby       = 1", "standby       = 0"))
    assert mechanism(ara.fleet, "web") == "ara"
    for name in ("schemes-cloud", "schemes-ara", "schemes-pf", "crash-recovery"):
        known = load_design(name)
        assert mechanism(known.fleet, "web") in (name.removeprefix("schemes-"), "pf")


@pytest.mark.parametrize(
    ("line", "key", "expected"),
    [
        ("retries = 3", "failover", "one of the keys heartbeat_s, misses"),
        ('tiers = ["db"]', "failover.tiers", "some of the tiers web"),
        ('tiers = ["db"]\nneeded = { web = 1 }', "failover.needed", "one of failover.tiers (db)"),
        ("needed = { db = 1 }", "failover.needed.db", "some of the tiers web"),
        ("needed = { web = 3 }", "failover.needed.web", "at most its 2 nodes"),
        ("needed = { web = 1 }", "failover.needed.web", "no active node is an extra one"),
        ("ready_timeout_s = 0", "failover.ready_timeout_s", "greater than 0"),
    ],
)
def test_unknown_and_impossible_settings_are_refused(
    tmp_path: Path, line: str, key: str, expected: str
) -> None:
    with pytest.raises(InputError) as refused:
        _design(tmp_path, toml=line)
    assert key in refused.value.place
    assert expected in refused.value.expected


def test_a_cloud_fleet_has_no_standbys_and_repairs_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no standbys in tier web"):
        _design(tmp_path, fleet=('scheme     = "on-prem"', 'scheme     = "cloud"'))
    (tmp_path / "fleet.tfvars").write_text(
        (DESIGN / "fleet.tfvars")
        .read_text()
        .replace('"on-prem"', '"cloud"')
        .replace("standby       = 1", "standby       = 0")
    )
    with pytest.raises(InputError, match=r"failover.repair_mean_s.*made anew, not repaired"):
        load_design(tmp_path)


def test_crashes_faster_than_their_detection_are_refused(tmp_path: Path) -> None:
    text = (DESIGN / "experiment.toml").read_text()
    (tmp_path / "fleet.tfvars").write_text((DESIGN / "fleet.tfvars").read_text())
    (tmp_path / "experiment.toml").write_text(
        text.replace("crash_mean_s = 15.0", "crash_mean_s = 1.5")
    )
    with pytest.raises(InputError, match=r"more than heartbeat_s times misses \(1.5 s\)"):
        load_design(tmp_path)


def test_machine_faults_beside_the_controller_are_refused(tmp_path: Path) -> None:
    text = (DESIGN / "experiment.toml").read_text()
    fault = '\n[[faults]]\nkind = "machine.crash"\nselect = { machine = "web-1" }\nat_s = 1.0\n'
    (tmp_path / "fleet.tfvars").write_text((DESIGN / "fleet.tfvars").read_text())
    (tmp_path / "experiment.toml").write_text(text + fault + "for_s = 2.0\n")
    with pytest.raises(InputError, match="no machine faults beside"):
        load_design(tmp_path)


def test_crashes_are_drawn_ahead_by_machine_and_grow_with_the_window() -> None:
    names = ["web-1", "web-2", "web-3"]
    short = crashes(names, 10.0, 5.0, 105.0, seed=7)
    longer = crashes(names, 10.0, 5.0, 1005.0, seed=7)
    assert short == tuple(one for one in longer if one[0] < 105.0)
    assert longer == tuple(sorted(longer))
    assert all(5.0 <= at_s < 1005.0 for at_s, _ in longer)
    # 3 streams of 100 expected crashes each: five standard deviations around 300.
    assert 300 - 5 * 300**0.5 < len(longer) < 300 + 5 * 300**0.5
    only = tuple(one for one in longer if one[1] == "web-2")
    assert crashes(["web-2"], 10.0, 5.0, 1005.0, seed=7) == only
