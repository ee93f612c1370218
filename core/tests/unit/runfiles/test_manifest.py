"""Results from before 23 November 2026 say the same in other words."""

from __future__ import annotations

from typing import Any

from core.runfiles.manifest import fleet_of, spec_of

OLD: dict[str, Any] = {
    "arms": {
        "spare": {"policy": "tad", "replicas": {"web": 2, "db": 1}, "tokens": {"db": 12}},
    },
    "fleet": {
        "experiment": "wiki",
        "tiers": {"web": {"role": "mediawiki", "backend": "db"}, "db": {"role": "mariadb"}},
        "arbiters": {"db": {"policy": "tad", "replicas": 1, "tokens": 12, "cpus": 1.0}},
    },
}
TODAY: dict[str, Any] = {
    "arms": {
        "spare": {
            "settings": {
                "web": {"policy": "tad", "replicas": 2, "tokens": None},
                "db": {"policy": "tad", "replicas": 1, "tokens": 12},
            }
        }
    },
    "fleet": {
        "experiment": "wiki",
        "tiers": {"web": {"role": "mediawiki", "calls": ["db"]}, "db": {"role": "mariadb"}},
        "arbiters": {"db": {"tokens": 12, "cpus": 1.0}},
    },
}


def test_an_old_specification_is_read_as_todays() -> None:
    assert spec_of({"spec": OLD}) == TODAY


def test_todays_specification_stays_as_it_is() -> None:
    assert spec_of({"spec": TODAY}) == TODAY
    assert fleet_of(TODAY["fleet"]) == TODAY["fleet"]


def test_a_manifest_without_one_has_an_empty_one() -> None:
    assert spec_of({}) == {}
