"""Shares of outcomes with intervals, per program and pooled; the price; the functions of silent
ones.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypedDict, cast

from core.runfiles.manifest import manifest_if_any
from experiments.kinds.bitflips.inject import OUTCOMES, Injection
from experiments.kinds.bitflips.measure import (
    ANSWERS,
    ANSWERS_FILE,
    INJECTIONS,
    INJECTIONS_FILE,
    PRICES_FILE,
    BitflipsManifest,
    Price,
)
from experiments.record.records import read_table
from experiments.record.result import Findings, not_measured
from experiments.report.text import percent

_Z = 1.959964  # of 95 %, two-sided
_ORIGINS = 12  # of silent corruptions that are listed


class Shares(TypedDict):
    """Counts of outcomes, their shares and intervals; injections that the run never came to count
    for nothing."""

    program: str
    variant: str
    injections: int
    missed: int
    counts: dict[str, int]
    shares: dict[str, float | None]
    intervals: dict[str, tuple[float, float]]
    silent_by_stream: dict[str, int]


class Probability(TypedDict):
    """A share of the planner's, with its bounds; None where there were no injections."""

    p: float | None
    interval: tuple[float, float]


class Ratio(TypedDict):
    """Median CPU time of a variant, and its ratio to native's, repeat by repeat."""

    program: str
    variant: str
    repeats: int
    cpu_s: float
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    requests_per_cpu_s: list[float] | None
    requests_per_s: list[float] | None
    transactions: dict[str, int] | None


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Return the 95 % score interval, (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).

    Parameters: hits int >= 0; of int >= hits.  Returns: (low, high), (0, 1) where of is 0.
    Source: Wilson 1927, JASA 22; it holds also where there are few hits, or none.
    """
    if of == 0:
        return 0.0, 1.0
    share, square = hits / of, _Z * _Z
    middle = share + square / (2 * of)
    reach = _Z * math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    low, high = (middle - reach) / (1 + square / of), (middle + reach) / (1 + square / of)
    return (0.0 if hits == 0 else low), (1.0 if hits == of else high)


def analyse(folder: Path) -> Findings:
    """Return the files of a run."""
    manifest = cast(BitflipsManifest, manifest_if_any(folder))
    table = read_table(folder / INJECTIONS_FILE, INJECTIONS)
    injections = cast(list[Injection], table.to_dicts())
    prices = json.loads((folder / PRICES_FILE).read_text(encoding="utf-8"))
    asked = manifest["spec"]["bitflips"]
    rows = [row_of(program, variant, found) for (program, variant), found in _split(injections)]
    by_variant: dict[str, list[Injection]] = defaultdict(list)
    for one in injections:
        by_variant[one["variant"]].append(one)
    pooled = [row_of("all", variant, found) for variant, found in by_variant.items()]
    body = {
        "rows": rows,
        "pooled": pooled,
        "silent": {variant: silent_origins(found) for variant, found in by_variant.items()},
        "price": price_rows(prices),
        "answers": _answers(folder),
        "programs": manifest["programs"],
        "asked": asked,
        "outcomes_for_planner": {one["variant"]: for_planner(one) for one in pooled},
    }
    verdicts = not_measured(manifest["verdicts"], _missing(rows, asked))
    return Findings(body, verdicts, found=_silent_shares(pooled))


def _split(injections: Iterable[Injection]) -> Iterable[tuple[tuple[str, str], list[Injection]]]:
    found: dict[tuple[str, str], list[Injection]] = defaultdict(list)
    for one in injections:
        found[one["program"], one["variant"]].append(one)
    return found.items()


def row_of(program: str, variant: str, found: Sequence[Injection]) -> Shares:
    """Return the outcomes of a program's variant."""
    counts = Counter(one["outcome"] for one in found)
    fired = sum(counts[outcome] for outcome in OUTCOMES)
    return {
        "program": program,
        "variant": variant,
        "injections": fired,
        "missed": counts["missed"],
        "counts": {outcome: counts[outcome] for outcome in OUTCOMES},
        "shares": {outcome: counts[outcome] / fired if fired else None for outcome in OUTCOMES},
        "intervals": {outcome: wilson(counts[outcome], fired) for outcome in OUTCOMES},
        "silent_by_stream": dict(
            Counter(one["stream"] for one in found if one["outcome"] == "silent")
        ),
    }


def for_planner(row: Shares) -> dict[str, Probability]:
    """Return the outcomes of PCRAFT's integrity model, with intervals.

    They are corrupt, crash (with stops) and retry; the rest is masked.
    """
    counts, of = row["counts"], row["injections"]
    hits = {
        "corrupt": counts["silent"],
        "crash": counts["crash"] + counts["hang"] + counts["detected"],
        "retry": counts["corrected"],
    }
    return {
        name: {"p": count / of if of else None, "interval": wilson(count, of)}
        for name, count in hits.items()
    }


def silent_origins(found: Sequence[Injection]) -> list[dict[str, object]]:
    """Return the origins at which the silent corruptions of a variant began, the most frequent
    first.
    """
    origins = Counter(
        (one["program"], one["function"], one["line"], one["stream"], one["opcode"])
        for one in found
        if one["outcome"] == "silent"
    )
    names = ("program", "function", "line", "stream", "opcode")
    return [
        {**dict(zip(names, origin, strict=True)), "count": count}
        for origin, count in origins.most_common(_ORIGINS)
    ]


def price_rows(prices: Sequence[Price]) -> list[Ratio]:
    """Return the price of each program and variant."""
    times: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for one in prices:
        times[one["program"], one["variant"]][one["repeat"]] = one["cpu_s"]
    rows: list[Ratio] = []
    for (program, variant), own in times.items():
        native = times.get((program, "native"), {})
        ratios = sorted(own[n] / native[n] for n in own if native.get(n, 0.0) > 0.0)
        rows.append({
            "program": program, "variant": variant, "repeats": len(own),
            "cpu_s": median(own.values()),
            "ratio": median(ratios) if ratios else None,
            "ratio_low": ratios[0] if ratios else None,
            "ratio_high": ratios[-1] if ratios else None,
            "requests_per_cpu_s": _rate(prices, program, variant, lambda one: one["cpu_s"]),
            "requests_per_s": _rate(prices, program, variant, lambda one: one["took_s"]),
            "transactions": _transactions(prices, program, variant),
        })  # fmt: skip
    return rows


def _transactions(prices: Sequence[Price], program: str, variant: str) -> dict[str, int] | None:
    """Hardware transactions begun in all repeats, and aborts by reason; None if it had none."""
    found = [
        one["transactions"]
        for one in prices
        if (one["program"], one["variant"]) == (program, variant) and "transactions" in one
    ]
    return {name: sum(one[name] for one in found) for name in found[0]} if found else None


def _rate(
    prices: Sequence[Price], program: str, variant: str, over: Callable[[Price], float]
) -> list[float] | None:
    """Least, median and greatest of a service's requests over a time; None for a kernel."""
    rates = sorted(
        one["requests"] / over(one)
        for one in prices
        if (one["program"], one["variant"]) == (program, variant) and "requests" in one
    )
    return [rates[0], median(rates), rates[-1]] if rates else None


def _answers(folder: Path) -> list[dict[str, object]]:
    """Return the frequency of each wrong answer of a service: under load, or read back."""
    if not (folder / ANSWERS_FILE).exists():
        return []
    found = read_table(folder / ANSWERS_FILE, ANSWERS).to_dicts()
    counts = Counter((one["program"], one["variant"], one["fault"], one["phase"]) for one in found)
    names = ("program", "variant", "fault", "phase")
    return [
        {**dict(zip(names, origin, strict=True)), "count": count}
        for origin, count in sorted(counts.items())
        if origin[2]
    ]


def speed_of(price: Sequence[Ratio], variant: str) -> float | None:
    """Return the variant's speed as a share of native's: the geometric mean over programs."""
    ratios = [one["ratio"] for one in price if one["variant"] == variant and one["ratio"]]
    return math.exp(-sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def _missing(rows: Sequence[Shares], asked: Mapping[str, Any]) -> list[str]:
    """Why the campaign is not what was asked for."""
    pairs = {(row["program"], row["variant"]): row for row in rows}
    reasons = []
    for program in asked["programs"]:
        for variant in asked["variants"]:
            row = pairs.get((program, variant))
            done = row["injections"] if row else 0
            if done < asked["injections"]:
                reasons.append(
                    f"{program}, {variant}: {done:,} of {asked['injections']:,} injections"
                )
    return reasons


def _silent_shares(pooled: Sequence[Shares]) -> str:
    return "silent: " + ", ".join(
        f"{one['variant']} {percent(one['shares']['silent'])}" for one in pooled
    )
