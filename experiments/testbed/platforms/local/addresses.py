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
    values: Mapping[str, Any],
    current: Mapping[str, Any],
    *,
    further_entries: Collection[str] = (),
    taken_ports: Collection[int],
    taken_networks: Collection[IPv4Network],
) -> dict[str, object]:
    """Choose the ports and ranges that `values` leaves open, as the stack's variables.

    Parameters: values, those of fleet.tfvars; current, those of the fleet if it is up;
    further_entries, entry tiers after the first; taken_*, those of other fleets.
    Raises EnvironmentMissing if none is free.
    """
    variables = _ranges(values, current, taken_networks)
    ports = {name: values[name] for name in PORTS if name in values}
    for name, first in PORTS.items():
        if name not in values:
            used = {*taken_ports, *ports.values()}
            ports[name] = variables[name] = current.get(name) or _free_port(name, first, used)
    entries = variables["entry_ports"] = dict[str, int]()
    for tier in further_entries:
        used = {*taken_ports, *ports.values(), *entries.values()}
        port = current.get("entry_ports", {}).get(tier)
        entries[tier] = port or _free_port("entry_ports", PORTS["entry_port"], used)
    return variables


def _ranges(
    values: Mapping[str, Any], current: Mapping[str, Any], taken_networks: Collection[IPv4Network]
) -> dict[str, object]:
    """Return both ranges, at the same offset in their /16; a stated range fixes the other one."""
    for name, other_name in (("data_cidr", "control_cidr"), ("control_cidr", "data_cidr")):
        if name in values:
            network = IPv4Network(values[name])
            offset = int(network.network_address) - int(_RANGES[name].network_address)
            address = int(_RANGES[other_name].network_address) + offset
            return (
                {}
                if other_name in values
                else {other_name: f"{IPv4Network((address, network.prefixlen))}"}
            )
    if all(name in current for name in _RANGES):
        return {name: current[name] for name in _RANGES}
    pairs = zip(
        *(whole_range.subnets(new_prefix=_PREFIX) for whole_range in _RANGES.values()), strict=True
    )
    for pair in pairs:
        if not any(candidate.overlaps(taken) for candidate in pair for taken in taken_networks):
            return dict(zip(_RANGES, map(str, pair), strict=True))
    raise EnvironmentMissing(
        "address ranges of the fleet",
        expected=f"a free /{_PREFIX} of 198.18.0.0/16 whose twin of 198.19.0.0/16 is free too",
        got=f"{len(taken_networks)} networks in the way",
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
    """Describe ports and ranges in one line for a person."""
    ports_by_name = {name.removesuffix("_port"): variables[name] for name in PORTS}
    ports = ", ".join(
        f"{name} {port}" for name, port in (ports_by_name | variables["entry_ports"]).items()
    )
    ranges = " and ".join(str(variables[name]) for name in _RANGES)
    return f"ports on 127.0.0.1: {ports}; networks: {ranges}"


def networks_of(variables: Iterable[Mapping[str, Any]]) -> set[IPv4Network]:
    """Return the ranges that fleets have been given."""
    return {IPv4Network(fleet[name]) for fleet in variables for name in _RANGES if name in fleet}


def ports_of(variables: Iterable[Mapping[str, Any]]) -> set[int]:
    """Return the ports that fleets have been given."""
    fleets = list(variables)
    further = {port for fleet in fleets for port in fleet.get("entry_ports", {}).values()}
    return {int(fleet[name]) for fleet in fleets for name in PORTS if name in fleet} | further
