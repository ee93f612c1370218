"""Measurements in turns, because other work on the machine changes with time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.process import cpu_s

Turns = dict[str, list[dict[str, float]]]


def measure_turns(
    proxies: Mapping[str, tuple[int, int]], turns: int, ask: Callable[[int], dict[str, float]]
) -> Turns:
    """Return the figures of `ask` for each proxy's port, in turns.

    `per_cpu_s` is its `requests` per second of the proxy's CPU time.
    """
    runs: Turns = {name: [] for name in proxies}
    for _ in range(turns):
        for name, (port, pid) in proxies.items():
            before_s = cpu_s(pid)
            run = ask(port)
            run["per_cpu_s"] = run.pop("requests") / (cpu_s(pid) - before_s)
            runs[name].append(run)
    return runs


def spread(name: str, values: Sequence[float]) -> dict[str, object]:
    """Return the median as `name`, and the least and greatest as `name`_range."""
    return {name: statistics.median(values), f"{name}_range": [min(values), max(values)]}


def medians(turns: Turns, keys: Sequence[str]) -> dict[str, object]:
    """Return the spread of each of `keys`, for each proxy."""
    figures: dict[str, object] = {}
    for name, runs in turns.items():
        for key in keys:
            figures |= spread(f"{name}_{key}", [run[key] for run in runs])
    return figures


def ratio(name: str, turns: Turns, ours: str, theirs: str, key: str) -> dict[str, object]:
    pairs = zip(turns[ours], turns[theirs], strict=True)
    return spread(name, [run[key] / peer[key] for run, peer in pairs])


def compare(
    turns: Turns, keys: Sequence[str], theirs: str, **ratios: tuple[str, str]
) -> dict[str, object]:
    """Return the medians of `keys`, and `ratios`: of a proxy and its figure, over `theirs`."""
    figures = {"turns": len(turns[theirs]), **medians(turns, keys)}
    for name, (ours, key) in ratios.items():
        figures |= ratio(name, turns, ours, theirs, key)
    return figures


def comparison_costs(turns: Turns, modes: Iterable[str]) -> dict[str, object]:
    """Return the cost of comparing replies at r = 2, as ratios to an arbiter that compares none.

    The ratios are of requests per second, and of requests per second of the arbiter's CPU time.
    """
    figures: dict[str, object] = {}
    for mode in modes:
        for name, key in (("ratio", "rps"), ("ratio_cpu", "per_cpu_s")):
            figures |= ratio(f"{name}_{mode}", turns, f"arbiter_r2_{mode}", "arbiter_r2", key)
    return figures
