"""Reads a results folder: the files, their columns, and what the manifest says of the fleet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.errors import InputError
from optimizer.fit.failovers import NONE, Failovers, failovers

if TYPE_CHECKING:
    import polars as pl

_REQUESTS = ("arm", "repeat", "phase", "intended_s", "done_s", "latency_ms", "outcome")
_ARBITERS = (
    *("time_s", "tier", "policy", "replicas", "server", "requests", "last_latency_us"),
    *("latency_us_sum", "latency_count", "received", "tokens_in_use", "client_accepted"),
)
_HOSTS = ("time_s", "machine", "tier", "cpu_percent", "cpu_cores")


@dataclass(frozen=True)
class TierSpec:
    """A tier as the run had it. `cpus` None: not said, to be inferred from the hosts' metrics."""

    name: str
    role: str
    backend: str | None
    nodes: int
    cpus: float | None
    memory_mb: float
    nic_mbps: float | None
    disk_mbps: float | None


@dataclass(frozen=True)
class Window:
    """A span of time [s since the run's start] on a machine."""

    machine: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Results:
    """A results folder, checked for the columns that the fit needs."""

    manifest: Mapping[str, Any]
    requests: pl.DataFrame
    arbiters: pl.DataFrame
    hosts: pl.DataFrame
    interference: tuple[Window, ...]
    faults: tuple[Window, ...]
    tiers: tuple[TierSpec, ...]  # from the front to the back
    failovers: Failovers = NONE


def read_results(run_dir: Path) -> Results:
    """Read `run_dir`. Raises InputError naming the file, key or column that is missing or
    damaged."""
    if not run_dir.is_dir():
        raise InputError(
            str(run_dir),
            expected="a results folder",
            came="nothing there",
            do="Run the design first.",
        )
    manifest = _json(run_dir / "manifest.json")
    requests = _table(run_dir / "requests.parquet", _REQUESTS)
    windows = _windows(run_dir / "events.jsonl", _end_s(requests))
    return Results(
        manifest=manifest,
        requests=requests,
        arbiters=_table(run_dir / "arbiters.parquet", _ARBITERS),
        hosts=_table(run_dir / "hosts.parquet", _HOSTS),
        interference=tuple(w for what, w in windows if what == "interference"),
        faults=tuple(w for what, w in windows if what == "fault"),
        tiers=_tiers(manifest),
        failovers=failovers(_sound(_events(run_dir / "events.jsonl"))),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            str(path), expected="the run's manifest", came=str(error.strerror)
        ) from error
    except ValueError as error:
        raise InputError(str(path), expected="JSON", came=str(error)) from error
    if not isinstance(value, dict):
        raise InputError(str(path), expected="a JSON object", came=type(value).__name__)
    return value


def _table(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    if not path.is_file():
        raise InputError(
            str(path),
            expected="a table of the run",
            came="no such file",
            do="The run did not get that far; run the design again.",
        )
    try:
        table = pl.read_parquet(path)
    except Exception as error:  # polars has no common base for damaged files
        raise InputError(str(path), expected="a Parquet file", came=str(error)) from error
    for column in columns:
        if column not in table.columns:
            raise InputError(
                f"{path.name}: {column}",
                expected="this column",
                came="only " + ", ".join(table.columns),
            )
    return table


def _end_s(requests: pl.DataFrame) -> float:
    last = requests["done_s"].max()
    return float(last) if isinstance(last, int | float) else 0.0


def _windows(path: Path, end_s: float) -> list[tuple[str, Window]]:
    """Interference and fault spans: a start (start or inject) and its end (end or revert)."""
    open_spans: dict[tuple[Any, ...], dict[str, Any]] = {}
    found: list[tuple[str, Window]] = []
    for event in _events(path):
        if event.get("what") not in ("interference", "fault") or not event.get("machine"):
            continue
        key = tuple(event.get(k) for k in ("what", "kind", "machine", "arm", "repeat", "id"))
        if event.get("action") in ("start", "inject"):
            open_spans[key] = event
        elif event.get("action") in ("end", "revert") and key in open_spans:
            start = open_spans.pop(key)
            found.append((event["what"], _window(start, float(event["time_s"]))))
    for event in open_spans.values():
        length_s = event.get("duration_s")
        last = end_s if length_s is None else float(event["time_s"]) + float(length_s)
        found.append((event["what"], _window(event, last)))
    return found


def _events(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_event(path, number, line) for number, line in enumerate(lines, start=1)]


def _sound(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those of blocks that were set aside and measured again."""
    aside = {event.get("repeat") for event in events if event.get("action") == "spoiled"}
    return [event for event in events if event.get("repeat") not in aside]


def _event(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        event = json.loads(line) if line.strip() else {}
    except ValueError as error:
        raise InputError(f"{path.name} line {number}", expected="JSON", came=str(error)) from error
    if not isinstance(event, dict):
        raise InputError(f"{path.name} line {number}", expected="an object", came=line[:60])
    if event and not isinstance(event.get("time_s"), int | float):
        raise InputError(
            f"{path.name} line {number}: time_s",
            expected="a number",
            came=repr(event.get("time_s")),
        )
    return event


def _window(start: Mapping[str, Any], end_s: float) -> Window:
    return Window(str(start["machine"]), float(start["time_s"]), end_s)


def _tiers(manifest: Mapping[str, Any]) -> tuple[TierSpec, ...]:
    fleet = manifest.get("fleet") or {}
    spec = manifest.get("spec") or {}
    stated = (spec.get("fleet") or {}).get("tiers") or spec.get("tiers") or {}
    machines = [m for m in fleet.get("machines") or [] if m.get("role") != "arbiter"]
    names = [m["tier"] for m in machines if m.get("tier")]
    if not names:
        raise InputError(
            "manifest.json: fleet.machines",
            expected="the inventory's machines with their tiers",
            came="none",
        )
    tiers = {}
    for name in dict.fromkeys(names):
        active = [m for m in machines if m.get("tier") == name and not m.get("standby")]
        tiers[name] = _tier(name, active, stated.get(name) or {})
    return _front_to_back(tiers, _entry(fleet))


def _tier(name: str, active: list[Any], stated: Mapping[str, Any]) -> TierSpec:
    cpus = stated.get("cpus")
    return TierSpec(
        name=name,
        role=str(stated.get("role") or (active[0].get("role") if active else "")),
        backend=stated.get("backend") or None,
        nodes=len(active),
        cpus=None if cpus is None else float(cpus),
        memory_mb=float(stated.get("memory_mb") or 512),
        nic_mbps=stated.get("nic_mbps"),
        disk_mbps=stated.get("disk_mbps"),
    )


def _entry(fleet: Mapping[str, Any]) -> str | None:
    """The tier whose arbiter has the entry endpoint's address."""
    endpoint = str((fleet.get("endpoints") or {}).get("entry") or "")
    host = endpoint.split("//")[-1].split("/")[0].split(":")[0]
    for machine in fleet.get("machines") or []:
        if machine.get("role") == "arbiter" and machine.get("address") == host:
            return str(machine["tier"])
    return None


def _front_to_back(tiers: dict[str, TierSpec], entry: str | None) -> tuple[TierSpec, ...]:
    backends = {t.backend for t in tiers.values() if t.backend}
    if backends:
        heads = [name for name in tiers if name not in backends]
    else:
        heads = [name for name in tiers if name == entry] or (
            list(tiers) if len(tiers) == 1 else []
        )
    if len(heads) != 1:
        raise InputError(
            "manifest.json: spec.fleet.tiers",
            expected="backend of each tier, so that one tier is the entry",
            came=f"entries {heads}",
        )
    order = [heads[0]]
    while (following := tiers[order[-1]].backend) in tiers and following not in order:
        assert following is not None
        order.append(following)
    rest = [name for name in tiers if name not in order]
    if len(rest) == 1 and not backends:
        order += rest
    elif rest:
        raise InputError(
            "manifest.json: spec.fleet.tiers",
            expected="a chain of tiers by backend",
            came=f"{' -> '.join(order)} without {', '.join(rest)}",
        )
    return tuple(tiers[name] for name in order)
