"""Ports and address ranges of a fleet on this host: stated, kept or free, and none twice."""

from __future__ import annotations

import socket
from ipaddress import IPv4Network
from typing import Any

import pytest

from core.errors import EnvironmentMissing
from experiments.testbed.platforms.local.addresses import (
    PORTS,
    choose_addresses,
    networks_of,
    ports_of,
)


def _addresses(stated: dict[str, Any], kept: dict[str, Any], *others: dict[str, Any]) -> Any:
    return choose_addresses(
        stated,
        kept,
        further_entries=["side"],
        taken_ports=ports_of(others),
        taken_networks=networks_of(others),
    )


def test_a_fleet_gets_what_no_other_fleet_has() -> None:
    fleets: list[dict[str, Any]] = []
    for _ in range(16):
        fleets.append(_addresses({}, {}, *fleets))
    networks = [IPv4Network(one[name]) for one in fleets for name in ("data_cidr", "control_cidr")]
    assert not any(a.overlaps(b) for a in networks for b in networks if a is not b)
    assert len(ports_of(fleets)) == 16 * (len(PORTS) + 1)
    data, control = (str(fleets[-1][name]) for name in ("data_cidr", "control_cidr"))
    assert data.removeprefix("198.18") == control.removeprefix("198.19")
    with pytest.raises(EnvironmentMissing) as refused:
        _addresses({}, {}, *fleets)
    assert refused.value.place == "address ranges of the fleet"


def test_what_is_stated_is_not_chosen_and_its_twin_follows() -> None:
    stated = {"entry_port": 18100, "control_cidr": "198.19.64.0/18"}
    chosen = _addresses(stated, {}, {"influxdb_port": PORTS["influxdb_port"]})
    assert chosen["data_cidr"] == "198.18.64.0/18"
    assert not chosen.keys() & stated.keys()
    assert chosen["influxdb_port"] > PORTS["influxdb_port"]
    both = {"data_cidr": "198.18.0.0/16", "control_cidr": "198.19.0.0/16"}
    assert not _addresses(both, {}).keys() & both.keys()


def test_a_fleet_that_is_up_keeps_its_addresses() -> None:
    first = _addresses({}, {}, {"data_cidr": "198.18.0.0/20", "entry_port": PORTS["entry_port"]})
    assert first["data_cidr"] == "198.18.16.0/20"
    assert _addresses({}, first) == first


def test_a_port_that_somebody_listens_on_is_not_taken() -> None:
    free = _addresses({}, {})["entry_port"]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", free))
        listener.listen()
        assert _addresses({}, {})["entry_port"] > free


def test_a_stated_port_is_not_chosen_for_something_else() -> None:
    chosen = _addresses({"entry_port": PORTS["influxdb_port"]}, {})
    assert chosen["influxdb_port"] != PORTS["influxdb_port"]
