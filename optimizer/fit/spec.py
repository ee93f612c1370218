"""Tiers and arms in a run's manifest.json."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.json_object import JsonObject
from core.runfiles.manifest import spec_of

_PLACE = "manifest.json: spec.fleet.tiers"
_BY_DEFAULT = "round-robin"  # an arm's policy that does not say


@dataclass(frozen=True)
class TierSpec:
    """A tier of the run. `cpus` None: not stated, to be inferred from the hosts' metrics."""

    name: str
    role: str
    calls: tuple[str, ...]
    nodes: int
    cpus: float | None
    memory_mb: float
    nic_mbps: float | None
    disk_mbps: float | None
    standby: int = 0
    instance_type: str = ""  # on a platform that has types
    token_hold: str = "request"  # what holds a token: a request, or a connection
    state: str | None = None  # what a machine keeps: none, copied, own; None: its role says nothing


@dataclass(frozen=True)
class TierSettings:
    """An arm's settings of a tier."""

    policy: str = _BY_DEFAULT
    replicas: int = 1
    tokens: int = 1
    look_ahead: int | None = None  # of TAD, beyond r; none: every server


def arms_of(manifest: Mapping[str, Any]) -> dict[str, dict[str, TierSettings]]:
    """Return the settings per arm and tier; a missing tier has the defaults."""
    spec = spec_of(manifest)
    arbiters = (spec.get("fleet") or {}).get("arbiters") or {}
    return {name: _settings(arm, arbiters) for name, arm in (spec.get("arms") or {}).items()}


def _settings(arm: Mapping[str, Any], arbiters: Mapping[str, Any]) -> dict[str, TierSettings]:
    stated, found = arm.get("settings") or {}, {}
    for tier in {**arbiters, **stated}:
        own = stated.get(tier) or {}
        found[tier] = TierSettings(
            policy=str(own.get("policy") or _BY_DEFAULT),
            replicas=int(own.get("replicas") or 1),
            tokens=int(own.get("tokens") or (arbiters.get(tier) or {}).get("tokens") or 1),
            look_ahead=own.get("look_ahead"),
        )
    return found


def tiers_of(manifest: Mapping[str, Any]) -> tuple[TierSpec, ...]:
    """Return the tiers from the front to the back. Raises InputError if they are no chain."""
    fleet, spec = manifest.get("fleet") or {}, spec_of(manifest)
    stated, roles = (spec.get("fleet") or {}).get("tiers") or {}, spec.get("roles") or {}
    machines = [m for m in fleet.get("machines") or [] if m.get("role") != "arbiter"]
    names = [m["tier"] for m in machines if m.get("tier")]
    if not names:
        raise InputError(
            "manifest.json: fleet.machines",
            expected="the inventory's machines with their tiers",
            got="none",
        )
    tiers = {}
    for name in dict.fromkeys(names):
        own = [m for m in machines if m.get("tier") == name]
        tiers[name] = _tier(name, own, stated.get(name) or {}, roles)
    return _front_to_back(tiers, _entry(fleet))


def _tier(
    name: str, machines: list[Any], stated: Mapping[str, Any], roles: Mapping[str, Any]
) -> TierSpec:
    cpus = stated.get("cpus")
    active = [machine for machine in machines if not machine.get("standby")]
    role = str(stated.get("role") or (active[0].get("role") if active else ""))
    told = roles[role] if role in roles else _default_roles().get(role) or {}
    return TierSpec(
        name=name,
        role=role,
        calls=tuple(stated.get("calls") or ()),
        nodes=len(active),
        cpus=None if cpus is None else float(cpus),
        memory_mb=float(stated.get("memory_mb") or 512),
        nic_mbps=stated.get("nic_mbps"),
        disk_mbps=stated.get("disk_mbps"),
        standby=len(machines) - len(active),
        instance_type=str((active[0].get("instance_type") if active else "") or ""),
        token_hold=str((told.get("fit") or {}).get("token_hold") or "request"),
        state=told.get("state"),
    )


@functools.cache
def _default_roles() -> JsonObject:
    """Today's roles, for runs until 23 November 2026, whose manifests have none."""
    file = Path(__file__).with_name("default_roles.json")
    return dict(json.loads(file.read_text(encoding="utf-8")))


def _entry(fleet: Mapping[str, Any]) -> str | None:
    """Return the tier with the load: the stated one, or that of the endpoint's address."""
    endpoints = fleet.get("endpoints") or {}
    if endpoints.get("entries"):
        return str(endpoints["entries"][0]["tier"])
    host = str(endpoints.get("entry") or "").split("//")[-1].split("/")[0].split(":")[0]
    for machine in fleet.get("machines") or []:
        if machine.get("role") == "arbiter" and machine.get("address") == host:
            return str(machine["tier"])
    return None


def _front_to_back(tiers: dict[str, TierSpec], entry: str | None) -> tuple[TierSpec, ...]:
    called = {name for tier in tiers.values() for name in tier.calls}
    if called:
        heads = [name for name in tiers if name not in called]
    else:
        heads = [name for name in tiers if name == entry or len(tiers) == 1]
    if len(heads) != 1:
        expected = "what each tier calls, so that one is the entry"
        raise InputError(_PLACE, expected=expected, got=f"entries {heads}")
    order = [heads[0]]
    while len(following := [n for n in tiers[order[-1]].calls if n in tiers]) == 1:
        if following[0] in order:
            break
        order += following
    rest = [name for name in tiers if name not in order]
    if len(rest) == 1 and not called:
        order += rest
    elif rest:
        got = f"{' -> '.join(order)} without {', '.join(rest)}"
        raise InputError(_PLACE, expected="a chain: each tier calls the next", got=got)
    return tuple(tiers[name] for name in order)
