"""A fleet's addresses on this host: its address ranges, and its published ports.

Values of `fleet.tfvars` are used as stated, and a fleet that is up keeps its own. Other values are
chosen among the free ones, so that several fleets can be up at the same time.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Network
from typing import Any

from core.errors import EnvironmentMissing

PORTS = {"entry_port": 18080, "influxdb_port": 18086, "grafana_port": 13000}
_TRIES = 200  # ports upwards of each
_RANGES = {"data_cidr": IPv4Network("198.18.0.0/16"), "control_cidr": IPv4Network("198.19.0.0/16")}
_PREFIX = 20


def choose_addresses(
    stated: Mapping[str, Any],
    kept: Mapping[str, Any],
    *,
    further_entries: Collection[str] = (),
    taken_ports: Collection[int],
    taken_networks: Collection[IPv4Network],
) -> dict[str, object]:
    """Ports and ranges that `stated` leaves open, as the stack's variables.

    Parameters: kept, those of the fleet as it is up; further_entries, entry tiers after the first;
    taken_*, those of other fleets.
    Raises EnvironmentMissing if none is free.
    """
    chosen = _ranges(stated, kept, taken_networks)
    ports = {name: stated[name] for name in PORTS if name in stated}
    for name, first in PORTS.items():
        if name not in stated:
            used = {*taken_ports, *ports.values()}
            ports[name] = chosen[name] = kept.get(name) or _free_port(name, first, used)
    entries = chosen["entry_ports"] = dict[str, int]()
    for tier in further_entries:
        used = {*taken_ports, *ports.values(), *entries.values()}
        had = kept.get("entry_ports", {}).get(tier)
        entries[tier] = had or _free_port("entry_ports", PORTS["entry_port"], used)
    return chosen


def _ranges(
    stated: Mapping[str, Any], kept: Mapping[str, Any], taken: Collection[IPv4Network]
) -> dict[str, object]:
    """Both ranges at the same place of their /16; one that is stated gives the other's."""
    for name, other in (("data_cidr", "control_cidr"), ("control_cidr", "data_cidr")):
        if name in stated:
            there = IPv4Network(stated[name])
            offset = int(there.network_address) - int(_RANGES[name].network_address)
            beside = int(_RANGES[other].network_address) + offset
            return {} if other in stated else {other: f"{IPv4Network((beside, there.prefixlen))}"}
    if all(name in kept for name in _RANGES):
        return {name: kept[name] for name in _RANGES}
    pairs = zip(*(one.subnets(new_prefix=_PREFIX) for one in _RANGES.values()), strict=True)
    for pair in pairs:
        if not any(one.overlaps(other) for one in pair for other in taken):
            return dict(zip(_RANGES, map(str, pair), strict=True))
    raise EnvironmentMissing(
        "address ranges of the fleet",
        expected=f"a free /{_PREFIX} of 198.18.0.0/16 whose twin of 198.19.0.0/16 is free too",
        got=f"{len(taken)} networks in the way",
        hint="`sparecraft list` shows the fleets that are up, `sparecraft down` removes one.",
    )


def _free_port(name: str, first: int, used: Collection[int]) -> int:
    for port in range(first, first + _TRIES):
        if port not in used and _is_free(port):
            return port
    raise EnvironmentMissing(
        name,
        expected=f"a free port of {first} to {first + _TRIES - 1} on 127.0.0.1",
        got="none",
        hint=f"State {name} in fleet.tfvars.",
    )


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def ports_line(variables: Mapping[str, Any]) -> str:
    """One line for a person."""
    named = {name.removesuffix("_port"): variables[name] for name in PORTS}
    ports = ", ".join(f"{what} {port}" for what, port in (named | variables["entry_ports"]).items())
    ranges = " and ".join(str(variables[name]) for name in _RANGES)
    return f"ports on 127.0.0.1: {ports}; networks: {ranges}"


def networks_of(variables: Iterable[Mapping[str, Any]]) -> set[IPv4Network]:
    """Return the ranges that fleets have been given."""
    return {IPv4Network(one[name]) for one in variables for name in _RANGES if name in one}


def ports_of(variables: Iterable[Mapping[str, Any]]) -> set[int]:
    """Return the ports that fleets have been given."""
    fleets = list(variables)
    further = {port for one in fleets for port in one.get("entry_ports", {}).values()}
    return {int(one[name]) for one in fleets for name in PORTS if name in one} | further
