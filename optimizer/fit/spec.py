"""Tiers and arms in a run's manifest.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from core.errors import InputError
from optimizer.fit.manifest_form import (
    ArbiterForm,
    ArmForm,
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
NOT_READ = ("tcp",)  # protocols whose requests the arbiter does not read, and so never copies


@dataclass(frozen=True)
class TierSpec:
    """A tier of the run, or one that plan.toml states, without `cpus`."""

    name: str
    role: str
    calls: tuple[str, ...]
    nodes: int
    cpus: float | None
    memory_mb: float
    nic_mbps: float
    disk_mbps: float
    standby: int = 0
    instance_type: str = ""  # on a platform that has types
    token_hold: str = "request"  # what holds a token: a request, or a connection
    state: str | None = None  # what a machine keeps: none, copied, own; None: its role says nothing
    promote_s: float | None = None  # until another machine is the primary; None: nothing promotes
    any_loss_stops_writes: bool = False  # for promote_s; False: the primary's alone does
    min_nodes: int = 1  # active machines that survive the loss of one
    promoters: tuple[TierSpec, ...] = ()  # called tiers that promote its machines
    is_copied: bool = True  # False: no arbiter can send a read to several of its machines


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
    stated, settings = arm.settings or {}, {}
    for tier in {**arbiters, **stated}:
        tier_settings, arbiter = (
            stated.get(tier) or SettingsForm(),
            arbiters.get(tier) or ArbiterForm(),
        )
        settings[tier] = TierSettings(
            policy=tier_settings.policy or _BY_DEFAULT,
            replicas=tier_settings.replicas or 1,
            tokens=tier_settings.tokens or arbiter.tokens or 1,
            look_ahead=tier_settings.look_ahead,
        )
    return settings


def tiers_of(manifest: ManifestForm) -> tuple[TierSpec, ...]:
    """Return the tiers from the front to the back. Raises InputError if they are no chain."""
    fleet, spec = manifest.fleet or InventoryForm(), manifest.spec or SpecForm()
    stated = (spec.fleet or FleetForm()).tiers or {}
    arbiters = (spec.fleet or FleetForm()).arbiters
    machines = [machine for machine in fleet.machines or [] if machine.role != "arbiter"]
    names = [machine.tier for machine in machines if machine.tier]
    if not names:
        raise InputError(
            "manifest.json: fleet.machines",
            expected="the inventory's machines with their tiers",
            got="none",
        )
    if unknown := set(names) - set(stated):
        got = ", ".join(sorted(unknown))
        raise InputError(_PLACE, expected="the tiers of the machines", got=f"no {got}")
    tiers = {}
    for name in dict.fromkeys(names):
        tier_machines = [machine for machine in machines if machine.tier == name]
        tiers[name] = _tier(name, tier_machines, stated[name], spec.roles or {})
        if arbiters is not None and name not in arbiters:
            tiers[name] = replace(tiers[name], is_copied=False)
    tiers = {name: _with_promoters(tier, tiers, spec.roles or {}) for name, tier in tiers.items()}
    promoters = {promoter.name for tier in tiers.values() for promoter in tier.promoters}
    serving = {name: tier for name, tier in tiers.items() if name not in promoters}
    return _front_to_back(serving)


def _with_promoters(
    tier: TierSpec, tiers: Mapping[str, TierSpec], roles: Mapping[str, RoleForm]
) -> TierSpec:
    """Return the tier with what its role says of promotion, if its own machines promote, or it
    calls a tier that does."""
    promotion = (roles.get(tier.role) or RoleForm()).promotion
    if promotion is None:
        return tier
    called = (tiers[name] for name in tier.calls if name in tiers)
    promoters = tuple(other for other in called if other.role == promotion.role)
    if promotion.role is not None and not promoters:
        return tier
    return replace(
        tier,
        state=promotion.state,
        promote_s=promotion.takes_s,
        any_loss_stops_writes=promotion.loss_of == "any",
        min_nodes=promotion.nodes_min,
        promoters=promoters,
    )


def _tier(
    name: str, machines: Sequence[MachineForm], stated: TierForm, roles: Mapping[str, RoleForm]
) -> TierSpec:
    active = [machine for machine in machines if not machine.standby]
    role_form = roles.get(stated.role) or RoleForm()
    return TierSpec(
        name=name,
        role=stated.role,
        calls=tuple(stated.calls),
        nodes=len(active),
        cpus=stated.cpus,
        memory_mb=stated.memory_mb,
        nic_mbps=stated.nic_mbps,
        disk_mbps=stated.disk_mbps,
        standby=len(machines) - len(active),
        instance_type=(active[0].instance_type if active else None) or "",
        token_hold=(role_form.fit or RoleFitForm()).token_hold or "request",
        state=role_form.state,
        is_copied=role_form.protocol not in NOT_READ,
    )


def _front_to_back(tiers: dict[str, TierSpec]) -> tuple[TierSpec, ...]:
    called = {name for tier in tiers.values() for name in tier.calls}
    heads = [name for name in tiers if name not in called]
    if len(heads) != 1:
        expected = "what each tier calls, so that one is the entry"
        raise InputError(_PLACE, expected=expected, got=f"entries {heads}")
    order = [heads[0]]
    while len(following := [name for name in tiers[order[-1]].calls if name in tiers]) == 1:
        if following[0] in order:
            break
        order += following
    rest = [name for name in tiers if name not in order]
    if rest:
        got = f"{' -> '.join(order)} without {', '.join(rest)}"
        raise InputError(_PLACE, expected="a chain: each tier calls the next", got=got)
    return tuple(tiers[name] for name in order)
