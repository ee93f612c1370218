"""The design's other files: the fleet, the experiment, the first workload, and a README."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.importers.compose.roles import Note
from experiments.importers.compose.service import SampleRequest
from experiments.importers.compose.tiers import Tier, urls_of
from experiments.importers.load_section import quote_toml
from experiments.importers.traffic import escape

CPUS, MEMORY_MB = 0.5, 512  # of a machine whose service has no limit
CPUS_MIN, MEMORY_MB_MIN = 0.1, 64
TOKENS = {"http": 16, "redis": 64, "memcached": 64}
TOKENS_OF_CONNECTIONS = 100  # a pool of connections holds them for as long as it lasts
STORES = {"redis": ("EXISTS sparecraft", ":0"), "memcached": ("get sparecraft", "END")}


def write_fleet(
    folder: Path, name: str, tiers: Mapping[str, Tier], entries: Sequence[Tier], note: Note
) -> None:
    """Write fleet.tfvars, with a tier for each service."""
    lines = [
        "# The fleet: a tier for each service of the Compose file. Edit at will.",
        f"experiment = {json.dumps(name)}",
        'scheme     = "on-prem"',
        "",
        "tiers = {",
    ]
    for tier in tiers.values():
        cpus, memory_mb = _limits_of(tier, note)
        callees = ", ".join(json.dumps(tiers[callee].name) for callee in tier.calls)
        values = {
            "role": json.dumps(tier.name),
            **({"calls": f"[{callees}]"} if callees else {}),
            "nodes": str(tier.nodes),
            "cpus": f"{cpus:g}",
            "memory_mb": str(memory_mb),
            "nic_mbps": "100",
            "disk_mbps": "50",
        }
        lines += [f"  {tier.name} = {{", *_align(values), "  }"]
    lines += ["}", "", "arbiters = {"]
    with_arbiter = {tier.name: tier for tier in tiers.values() if tier.arbiter}
    width = max(map(len, with_arbiter), default=0)
    for tier_name, tier in with_arbiter.items():
        tokens = TOKENS.get(tier.protocol, TOKENS_OF_CONNECTIONS)
        lines.append(f"  {tier_name:<{width}} = {{ tokens = {tokens} }}")
    lines.append("}")
    if len(entries) > 1:
        names = ", ".join(json.dumps(tier.name) for tier in entries)
        lines += ["", f"entries = [{names}]"]
    (folder / "fleet.tfvars").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _align(values: Mapping[str, str]) -> list[str]:
    width = max(map(len, values))
    return [f"    {key:<{width}} = {value}" for key, value in values.items()]


def _limits_of(tier: Tier, note: Note) -> tuple[float, int]:
    service = tier.service
    cpus = CPUS if service.cpus is None else service.cpus
    memory_mb = MEMORY_MB if service.memory_mb is None else service.memory_mb
    if cpus < CPUS_MIN or memory_mb < MEMORY_MB_MIN:
        why = f"limits are raised: a machine has at least {CPUS_MIN:g} cores and {MEMORY_MB_MIN} MB"
        note(service.key, why)
    return max(cpus, CPUS_MIN), max(memory_mb, MEMORY_MB_MIN)


def write_experiment(
    folder: Path, tiers: Mapping[str, Tier], entries: Sequence[Tier], note: Note
) -> None:
    """Write experiment.toml: load at a low rate on the entry tiers, and no faults."""
    copied_tier = next((tier for tier in tiers.values() if _can_be_copied(tier)), None)
    rate = entries[0].service.hints.load.rate_per_s
    load = [f"rate_per_s = {rate:.1f}", *_format_operations(entries, note)]
    if entries[0].protocol != "http":
        load = ['user = "users" # of workload.py', load[0]]
        (folder / "workload.py").write_text(_format_workload(entries[0]), encoding="utf-8")
    parts = [
        "# What is measured. docs/reference/experiment.md has all keys.",
        'kind = "compare"',
        "",
        "[load]",
        'arrivals = "poisson" # open loop: users do not wait for each other',
        *load,
        "",
        "[phases] # seconds of each block",
        "warm_up = 5",
        "measure = 30",
        "",
        *_format_arms(copied_tier),
        "",
        "[slo] # set these to what your service has to keep, before the first run",
        "availability = 0.999",
        "p95_ms = 500.0",
        "p99_ms = 1500.0",
        "max_error_share = 0.01",
        "preregistered = false",
        "",
        "[design]",
        f'order = "{"A" if copied_tier is None else "ABBA"}"',
        f"repeats = {4 if copied_tier is None else 2}",
        "",
    ]
    (folder / "experiment.toml").write_text("\n".join(parts), encoding="utf-8")


def _format_arms(tier: Tier | None) -> list[str]:
    if tier is None:
        return ["[arms.as-composed]"]
    return [
        "[arms.as-composed.settings]",
        f'{tier.name} = {{ policy = "round-robin" }}',
        "",
        f"# Each read of {tier.name} asks two machines, and the first answer counts.",
        "[arms.replicated.settings]",
        f'{tier.name} = {{ policy = "tad", replicas = 2 }}',
    ]


def _format_operations(entries: Sequence[Tier], note: Note) -> list[str]:
    """Return `[[load.operations]]` of the tiers that speak HTTP."""
    lines: list[str] = []
    for tier in entries:
        if tier.protocol != "http":
            if tier is not entries[0]:
                why = f"nobody calls {tier.service.name}, and the first load does not ask it"
                note(tier.service.key, why)
            continue
        for request in _requests_of(tier, note):
            lines += [
                "",
                "[[load.operations]]",
                f"name = {quote_toml(f'{tier.name} {request.path}')}",
            ]
            lines.append(f"path = {quote_toml(escape(request.path))}")
            if len(entries) > 1:
                lines.append(f"entry = {json.dumps(tier.name)}")
            if request.check:
                lines.append(f"checks = [{{ text = {quote_toml(request.check)} }}]")
    return lines


def _format_workload(tier: Tier) -> str:
    """Return workload.py for a store that load reaches directly: a key that nobody has set."""
    request, answer = STORES[tier.protocol]
    operation = ", ".join(json.dumps(field) for field in ("miss", request, answer))
    return f'''"""Requests of users: a name, a command, and a text that a good answer contains."""

from __future__ import annotations

from experiments.design.workloads import KEY_ZIPF, Operation, Population, Workload


def users() -> Population:
    """One key that is not there: put your own here."""
    return Population((Operation({operation}),), KEY_ZIPF)


WORKLOADS = {{"users": Workload(users, roles=({json.dumps(tier.name)},))}}
'''


def _can_be_copied(tier: Tier) -> bool:
    """True for a tier whose requests may be copied. A tier with callees is none: the copies would
    reach the callees too, and those may have one machine only.
    """
    alone = tier.arbiter and tier.nodes > 1 and not tier.calls
    return alone and tier.protocol == "http" and tier.state == "none"


def _requests_of(tier: Tier, note: Note) -> Sequence[SampleRequest]:
    requests = tier.service.hints.load.requests
    if requests:
        return requests
    paths = [path for port, path in urls_of(tier.service) if port == tier.port]
    if not paths:
        why = "no health check names a request of users: GET / is sent (x-sparecraft.load.requests)"
        note(tier.service.key, why)
    return [SampleRequest(path=path) for path in dict.fromkeys(paths or ["/"])]


def write_readme(
    folder: Path,
    name: str,
    file: Path,
    tiers: Mapping[str, Tier],
    unhonoured: Sequence[tuple[str, str]],
) -> None:
    """Write README.md: the tiers, and the parts of the file that have no effect."""
    rows = []
    for tier in tiers.values():
        image = tier.service.image if tier.service.build is None else "built of its context"
        arbiter = "yes" if tier.arbiter else "no"
        callees = [tiers[callee].name for callee in tier.calls]
        speaks = f"{tier.protocol} {tier.port}"
        cells = (tier.name, image, speaks, tier.state, arbiter, ", ".join(callees) or "-")
        rows.append(f"| {' | '.join(map(str, cells))} |")
    notes = [
        f"- `{place.removeprefix(str(file.parent) + '/')}`: {reason}"
        for place, reason in unhonoured
    ]
    text = "\n".join(
        [
            f"# {name}",
            "",
            f"Made of `{file.name}` by `sparecraft import compose`. It is yours: edit it at will.",
            "",
            "| tier | image | speaks | state | arbiter | calls |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "## What of the file has no effect, or another one",
            "",
            *(notes or ["Nothing: all of it is honoured."]),
            "",
        ]
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
