"""`check --deep`: make the smallest fleet of a design, ask it each operation once, and remove it.

Problems that appear only on machines (an image, a script, an answer) are found in seconds and not
after a run's set-up.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from core.errors import MeasurementFailed
from core.statistics.percentiles import OK
from experiments.console import Narrator
from experiments.design import Design
from experiments.design.contracts import COMPARE_OFF
from experiments.design.design_files import copy_design_files
from experiments.design.experiment import Arm, Load, Order
from experiments.design.fleet import Fleet
from experiments.design.roles import Places, Roles, find_roles
from experiments.design.schedule import PhaseWindow
from experiments.design.text import experiment_text, fleet_text
from experiments.design.workloads import Operation, Population, Workload, population_of
from experiments.load.client import Client
from experiments.load.clients import clients_of
from experiments.load.generator import LoadGenerator
from experiments.load.http_operation import Expected, VirtualUser, bytes_of, host_of
from experiments.load.plan import LoadPlan, addressed, client_class_of, locustfile_in, protocol_of
from experiments.load.protocols import IN_PYTHON
from experiments.load.tls import tls_of
from experiments.run.block import entries_for
from experiments.testbed import runs
from experiments.testbed.fleet import connect, disconnect, provision, wait_ready
from experiments.testbed.platforms import Platform
from experiments.testbed.settings import configure
from experiments.testbed.signals import ending_signals

OPERATIONS_MAX = 100  # that are asked; a workload may have a million
NAME_LENGTH_MAX = 30
_SUFFIX = "-check"
_GAP_S = 0.1
_FILE_TASKS = 10  # of a user of a Locust file
_FILE_GAP_S = 0.5
_POLL_S = 0.05
_LEAD_S = 0.5


@dataclass(frozen=True)
class OperationReply:
    """One operation's answer; `begin` has the first bytes of its content, where they are known."""

    operation: str
    outcome: str
    status: int
    bytes: int
    took_ms: float | None
    reason: str = ""
    begin: str = ""


def deep_check(design: Design, platform: Platform, narrator: Narrator) -> list[OperationReply]:
    """Make the smallest fleet of a design, ask each operation, and remove it, whatever happens.

    Parameters: platform of the experiment `small_name`. Raises: the first error on the way;
    MeasurementFailed where something of the fleet is left.
    """
    with (
        tempfile.TemporaryDirectory(prefix="sparecraft-check-") as folder,
        ending_signals(narrator.say) as signals,
        runs.registered(_active_run(design, folder)),
    ):
        small = smallest(design, Path(folder))
        try:
            with ExitStack() as cleanup:
                with narrator.step("Making the smallest fleet (terraform apply)"):
                    platform.check()
                    inventory = provision(small, platform, narrator)
                fleet = connect(platform, inventory)
                cleanup.callback(disconnect, fleet)
                with narrator.step("Waiting until every machine is ready"):
                    wait_ready(fleet, small.roles, narrator)
                    configure(small, next(iter(small.experiment.arms)), fleet)
                with narrator.step("Asking each operation once"):
                    workload = small.workloads[small.experiment.load.user]
                    return ask_once(small, entries_for(workload, small, inventory), workload)
        finally:
            signals.shield()
            _remove(platform, small.fleet.experiment, narrator)


def _remove(platform: Platform, name: str, narrator: Narrator) -> None:
    with narrator.step("Removing the fleet (terraform destroy)"):
        platform.down(narrator.detail)
        remaining = platform.remaining()
    if remaining:
        raise MeasurementFailed(
            f"fleet {name}",
            expected="nothing left of it",
            got=", ".join(map(str, remaining)),
            hint=f"`sparecraft down {name}` removes it.",
        )


def small_name(experiment: str) -> str:
    """Return the experiment of the smallest fleet, which stands beside the design's own."""
    return experiment[: NAME_LENGTH_MAX - len(_SUFFIX)].rstrip("-") + _SUFFIX


def smallest(design: Design, folder: Path) -> Design:
    """Return the same design with one machine of each tier, one copy of each request, and nothing
    that disturbs it; its files are written to `folder`. A tier has two machines if the first
    machine of its role differs from the others.
    """
    small = _small_fleet(design.fleet, design.roles)
    name = next(iter(design.experiment.arms))
    settings = {
        tier: tier_settings.model_copy(update={"replicas": 1, "compare": COMPARE_OFF})
        for tier, tier_settings in design.experiment.arms[name].settings.items()
    }
    experiment = design.experiment.undisturbed(
        kind="compare",
        arms={name: Arm(settings=settings)},
        design=Order(order="A", repeats=1, seed=design.experiment.design.seed),
    )
    copy_design_files(design.directory, design.experiment.load, folder)
    (folder / "fleet.tfvars").write_text(fleet_text(small, "the smallest"), encoding="utf-8")
    text = experiment_text(experiment, "asked once")
    (folder / "experiment.toml").write_text(text, encoding="utf-8")
    return replace(
        design, fleet=small, experiment=experiment, directory=folder, roles=find_roles(folder)
    )


def _small_fleet(fleet: Fleet, roles: Roles) -> Fleet:
    tiers = {
        name: tier.model_copy(
            update={
                "nodes": min(tier.nodes, 2 if roles[tier.role].places != Places() else 1),
                "standby": 0,
            }
        )
        for name, tier in fleet.tiers.items()
    }
    return fleet.model_copy(update={"experiment": small_name(fleet.experiment), "tiers": tiers})


def ask_once(
    design: Design, entries: Mapping[str, Sequence[str]], workload: Workload
) -> list[OperationReply]:
    """Ask each operation once by itself, and go through each session once without waits.

    Of a Locust file a user of each class does _FILE_TASKS tasks; the replies then have each
    request's name once with each of its outcomes.
    """
    load = design.experiment.load
    plan, sequences = trial_plan(load, entries, workload)
    plan = replace(plan, tls=tls_of(load, design.directory, load.tls_name))
    schemes = {protocol_of(url) for urls in plan.entries.values() for url in urls}
    custom_client = plan.client or plan.locustfile
    if custom_client is None and schemes <= set(IN_PYTHON):
        return [reply for sequence in sequences for reply in _ask_all(plan, sequence)]
    return _ask_by_worker(design, plan)


def trial_plan(
    load: Load, entries: Mapping[str, Sequence[str]], workload: Workload
) -> tuple[LoadPlan, list[list[int]]]:
    """Return a plan that asks each operation once, and for each user the indices of its operations
    in the order in which it asks them.
    """
    population = population_of(workload)
    sequences = _sequences(population)
    indices = [index for sequence in sequences for index in sequence]
    all_operations = (*population.operations, *population.writes)
    first = next(iter(entries))
    rated_load = (load if load.rate_per_s is not None else load.at(1.0)).sent
    gap_s = _GAP_S
    if workload.locustfile is not None:
        gap_s, indices = _FILE_GAP_S, [*range(len(all_operations))] * _FILE_TASKS
        rated_load = rated_load.model_copy(update={"max_in_flight": len(all_operations)})
    plan = LoadPlan(
        entries={tier: tuple(urls) for tier, urls in entries.items()},
        load=rated_load,
        arm="check",
        repeat=0,
        pair=0,
        windows=(PhaseWindow("measure", 0.0, gap_s * len(indices)),),
        operations=tuple(addressed(operation, first, entries) for operation in all_operations),
        offsets_s=tuple(gap_s * number for number in range(len(indices))),
        operation_of=tuple(indices),
        client=client_class_of(workload),
        locustfile=locustfile_in(workload, population, load),
        columns=population.table.columns if population.table else (),
        rows=population.table.rows[:1] if population.table else (),
        schema=2 if any(operation.http for operation in all_operations) else 1,
    )
    return plan, sequences


def _sequences(population: Population) -> list[list[int]]:
    count = len(population.operations) + len(population.writes)
    lone_operations = [
        index for index in range(count) if not population.weights or population.weights[index] > 0
    ]
    sessions = [[step.operation for step in session.steps] for session in population.sessions]
    return [*([index] for index in lone_operations[:OPERATIONS_MAX]), *sessions]


def _ask_all(plan: LoadPlan, sequence: Sequence[int]) -> list[OperationReply]:
    """Send one user's requests by Python's clients; none after one that failed."""
    clients = clients_of(plan, time.monotonic)
    user = VirtualUser(dict(zip(plan.columns, plan.rows[0], strict=True)) if plan.rows else {})
    replies: list[OperationReply] = []
    for index in sequence:
        operation = plan.operations[index]
        if replies and replies[-1].outcome != OK:
            replies.append(OperationReply(operation.name, "unreached", 0, 0, None))
            continue
        client = clients[plan.entries[operation.entry][0]]
        replies.append(_ask(operation, client, user))
    for client in clients.values():
        client.close()
    return replies


def _ask(operation: Operation, client: Client, user: VirtualUser) -> OperationReply:
    begun_s = time.monotonic()
    request, expected = _request(operation, client, user)
    answer = client.fetch(request, expected, begun_s)
    return OperationReply(
        operation.name,
        answer.outcome,
        answer.status,
        answer.bytes,
        round(1e3 * (answer.done_s - begun_s), 3),
        answer.reason,
        answer.begin.decode(errors="replace"),
    )


def _request(operation: Operation, client: Client, user: VirtualUser) -> tuple[Any, Any]:
    if operation.http is None:
        return client.request(operation.request), operation.check.encode()
    request = bytes_of(operation.http, host_of(client.address), user)
    return request, Expected(operation.http, user)


def _ask_by_worker(design: Design, plan: LoadPlan) -> list[OperationReply]:
    """Return the same by the design's load worker, for protocols without a client in Python."""
    t0_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sparecraft-check-") as folder:
        generator = LoadGenerator(
            Path(folder), t0_s, design.experiment.load.worker, design.directory
        )
        handle = generator.start(plan.only_used())
        try:
            handle.wait_ready()
            handle.go(time.monotonic() - t0_s + _LEAD_S)
            end_s = time.monotonic() + plan.length_s + plan.drain_s + 10 * _LEAD_S
            while handle.poll().state == "running" and time.monotonic() < end_s:
                time.sleep(_POLL_S)
            status = handle.poll()
        finally:
            handle.stop()
        if status.state != "done":
            raise handle.failure(status.problem or f"state {status.state}")
        records = handle.records()
        if plan.locustfile is not None:  # a busy user's next arrival is no finding
            records = records.filter(pl.col("outcome") != "dropped")
            records = records.unique(["name", "outcome"], keep="first", maintain_order=True)
        return [
            OperationReply(record["name"], record["outcome"], record["status"], record["bytes"],
                           record["latency_ms"], record["reason"] or "")
            for record in records.iter_rows(named=True)
        ]  # fmt: skip


def _active_run(design: Design, folder: str) -> runs.Active:
    return runs.Active(
        pid=os.getpid(),
        experiment=small_name(design.fleet.experiment),
        design=design.name,
        folder=folder,
        started=datetime.now(UTC).isoformat(),
    )
