"""The making and removal of a design's fleet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from core.errors import EnvironmentMissing, InputError, SparecraftError
from experiments.console import Narrator
from experiments.design import Design
from experiments.design.contracts import MACHINE_KINDS
from experiments.design.injections import injections
from experiments.design.inventory import Inventory
from experiments.design.roles import Roles
from experiments.design.schedule import blocks
from experiments.testbed.agents import (
    Agent,
    Capability,
    connect_agent,
    connect_arbiter,
    tls_context,
)
from experiments.testbed.live_fleet import Fleet
from experiments.testbed.platforms import Platform

_POLL_S = 0.5


def provision(design: Design, platform: Platform, narrator: Narrator) -> Inventory:
    """Call `terraform apply` with the design's fleet.tfvars."""
    inventory = platform.up(design.directory / "fleet.tfvars", narrator.detail)
    address = inventory.endpoints.grafana or "none, its image could not be pulled at set-up"
    narrator.detail(f"Grafana: {address}")
    return inventory


def connect(platform: Platform, inventory: Inventory) -> Fleet:
    """Connect to every agent and arbiter."""
    identity = platform.identity()
    context = tls_context(identity)
    agents = {machine.name: connect_agent(machine, context) for machine in inventory.with_agent}
    arbiters = {
        str(machine.tier): connect_arbiter(machine, context) for machine in inventory.arbiters
    }
    standbys = {
        machine.name: connect_agent(machine, context)
        for machine in inventory.machines
        if machine.standby
    }
    return Fleet(platform, inventory, identity.influxdb(inventory), agents, arbiters, standbys)


def wait_ready(fleet: Fleet, roles: Roles, narrator: Narrator) -> None:
    """Wait until the service of every machine answers.

    Standbys, which are off, are taken out of their arbiters. Raises EnvironmentMissing with the
    machine's log.
    """
    await_ready(fleet, roles, fleet.agents)
    for machine in fleet.inventory.machines:
        if machine.standby and machine.tier in fleet.arbiters:
            fleet.arbiters[str(machine.tier)].set_server(machine.name, False)
    narrator.detail(f"{len(fleet.agents)} machines ready")


def await_ready(fleet: Fleet, roles: Roles, agents: Mapping[str, Agent]) -> None:
    """Wait until the services of these machines answer, within the limits of role and platform.

    Raises EnvironmentMissing with the log of the first that does not.
    """
    waiting = dict(agents)
    began = time.monotonic()
    limits_s = {name: _limit_s(fleet, roles, name) for name in agents}
    readiness: dict[str, str] = {}
    while waiting:
        for name, agent in list(waiting.items()):
            readiness[name] = _readiness(agent)
            if readiness[name] == "ready":
                del waiting[name]
        waited_s = time.monotonic() - began
        for name in [name for name in waiting if waited_s > limits_s[name]]:
            raise EnvironmentMissing(
                f"machine {name}",
                expected=f"its service to be ready within {limits_s[name]:.0f} s",
                got=f"{readiness[name]}; it printed: {fleet.platform.machine_logs(name)}",
                hint="Call `sparecraft up` to look into it with the fleet left up.",
            )
        if waiting:
            time.sleep(_POLL_S)


def _limit_s(fleet: Fleet, roles: Roles, machine: str) -> float:
    role = roles[fleet.inventory.machine(machine).role]
    return max(fleet.platform.ready_timeout_s, role.ready.timeout_s)


def check_capabilities(design: Design, fleet: Fleet) -> None:
    """Refuse faults that a machine cannot inject, before any load. Raises InputError naming all."""
    stands_in = fleet.platform.through_agent
    needed = {
        (step.machine, stands_in.get(step.kind, step.kind))
        for block in blocks(design.experiment)
        for injection in injections(design.experiment, design.fleet, block)
        for step in injection.steps
        if step.kind in stands_in or step.kind not in MACHINE_KINDS
    }
    cannot: dict[str, list[str]] = {}
    for machine in sorted({machine for machine, _ in needed}):
        offered = fleet.agents[machine].capabilities()
        for kind in sorted(kind for name, kind in needed if name == machine):
            unknown: Capability = {"available": False, "reason": "unknown to this agent"}
            entry = offered.get(kind, unknown)
            if not entry["available"]:
                cannot.setdefault(f"{kind}: {entry.get('reason', 'no reason given')}", []).append(
                    machine
                )
    if cannot:
        got = "; ".join(f"{reason} (on {', '.join(names)})" for reason, names in cannot.items())
        raise InputError(
            f"design {design.name}",
            expected="faults that the fleet's machines can inject",
            got=got,
            hint="Remove them from experiment.toml, or run on a kernel with the missing facility.",
        )


def bring_up(design: Design, platform: Platform, narrator: Narrator) -> Inventory:
    """Provision and wait, for `sparecraft up`. A fleet that is not ready stays, to look into."""
    with narrator.step("Provisioning (terraform apply)"):
        platform.check()
        inventory = provision(design, platform, narrator)
    if platform.reachable:
        fleet = connect(platform, inventory)
        try:
            with narrator.step("Waiting until every machine is ready"):
                wait_ready(fleet, design.roles, narrator)
        finally:
            disconnect(fleet)
    return inventory


def fingerprints(fleet: Fleet, note: Callable[[str], None]) -> bool:
    """Return true if every machine is as before the first fault; `note` gets each difference."""
    clean = True
    for name, agent in fleet.agents.items():
        try:
            fingerprint = agent.fingerprint()
        except SparecraftError as error:
            note(f"{name}: no fingerprint: {error}")
            clean = False
            continue
        for difference in fingerprint["differences"]:
            note(f"{name}: {difference}")
        clean = clean and bool(fingerprint["clean"])
    return clean


def revert_everything(fleet: Fleet) -> list[str]:
    """Revert the faults that are still active on any machine and the settings of its role, which
    nothing renews any more; returns what could not be reverted."""
    fleet.settings.close()
    failed = []
    for name, agent in fleet.agents.items():
        try:
            failed += [f"{name}: {text}" for text in agent.revert_all()]
        except SparecraftError as error:
            failed.append(f"{name}: {error}")
    return failed


def disconnect(fleet: Fleet) -> None:
    """Close all connections; no lease is renewed any more."""
    fleet.settings.close()
    for api in [*fleet.agents.values(), *fleet.standbys.values(), *fleet.arbiters.values()]:
        with suppress(SparecraftError):
            api.close()


def _readiness(agent: Agent) -> str:
    try:
        health = agent.health()
    except SparecraftError as error:
        return f"no answer ({error.got})"
    if health["ready"]:
        return "ready"
    return f"service {health['service']}, not ready"
