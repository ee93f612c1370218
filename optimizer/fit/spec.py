"""Tiers and arms in a run's manifest.json."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import InputError
from optimizer.fit.manifest_form import (
    ArbiterForm,
    ArmForm,
    EndpointsForm,
    FleetForm,
    InventoryForm,
    MachineForm,
    ManifestForm,
    RoleFitForm,
    RoleForm,
    SettingsForm,
    SpecForm,
    TierForm,
)

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


def arms_of(manifest: ManifestForm) -> dict[str, dict[str, TierSettings]]:
    """Return the settings per arm and tier; a missing tier has the defaults."""
    spec = manifest.spec or SpecForm()
    arbiters = (spec.fleet or FleetForm()).arbiters or {}
    return {name: _settings(arm, arbiters) for name, arm in (spec.arms or {}).items()}


def _settings(arm: ArmForm, arbiters: Mapping[str, ArbiterForm | None]) -> dict[str, TierSettings]:
    stated, found = arm.settings or {}, {}
    for tier in {**arbiters, **stated}:
        own, arbiter = stated.get(tier) or SettingsForm(), arbiters.get(tier) or ArbiterForm()
        found[tier] = TierSettings(
            policy=own.policy or _BY_DEFAULT,
            replicas=own.replicas or 1,
            tokens=own.tokens or arbiter.tokens or 1,
            look_ahead=own.look_ahead,
        )
    return found


def tiers_of(manifest: ManifestForm) -> tuple[TierSpec, ...]:
    """Return the tiers from the front to the back. Raises InputError if they are no chain."""
    fleet, spec = manifest.fleet or InventoryForm(), manifest.spec or SpecForm()
    stated = (spec.fleet or FleetForm()).tiers or {}
    machines = [m for m in fleet.machines or [] if m.role != "arbiter"]
    names = [m.tier for m in machines if m.tier]
    if not names:
        raise InputError(
            "manifest.json: fleet.machines",
            expected="the inventory's machines with their tiers",
            got="none",
        )
    tiers = {}
    for name in dict.fromkeys(names):
        own = [m for m in machines if m.tier == name]
        tiers[name] = _tier(name, own, stated.get(name) or TierForm(), spec.roles or {})
    return _front_to_back(tiers, _entry(fleet))


def _tier(
    name: str, machines: Sequence[MachineForm], stated: TierForm, roles: Mapping[str, RoleForm]
) -> TierSpec:
    active = [machine for machine in machines if not machine.standby]
    role = stated.role or (active[0].role if active else None) or ""
    told = roles.get(role) or _default_roles().get(role) or RoleForm()
    return TierSpec(
        name=name,
        role=role,
        calls=tuple(stated.calls or ()),
        nodes=len(active),
        cpus=stated.cpus,
        memory_mb=stated.memory_mb or 512.0,
        nic_mbps=stated.nic_mbps,
        disk_mbps=stated.disk_mbps,
        standby=len(machines) - len(active),
        instance_type=(active[0].instance_type if active else None) or "",
        token_hold=(told.fit or RoleFitForm()).token_hold or "request",
        state=told.state,
    )


@functools.cache
def _default_roles() -> dict[str, RoleForm]:
    """Today's roles, for runs until 23 November 2026, whose manifests have none."""
    file = Path(__file__).with_name("default_roles.json")
    roles = json.loads(file.read_text(encoding="utf-8"))
    return {name: RoleForm.model_validate(role) for name, role in roles.items()}


def _entry(fleet: InventoryForm) -> str | None:
    """Return the tier with the load: the stated one, or that of the endpoint's address."""
    endpoints = fleet.endpoints or EndpointsForm()
    if endpoints.entries:
        return endpoints.entries[0].tier
    host = (endpoints.entry or "").split("//")[-1].split("/")[0].split(":")[0]
    for machine in fleet.machines or []:
        if machine.role == "arbiter" and machine.address == host:
            return machine.tier
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
