"""Shares of outcomes with intervals, per program and pooled; the price; the functions in which
silent corruptions began.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, Literal, cast

import polars as pl
from scipy import stats

from core.json_object import JsonObject
from core.runfiles.manifest import manifest_if_any
from experiments.kinds.bitflips.inject import OUTCOMES, Injection
from experiments.kinds.bitflips.measure import (
    ANSWERS_FILE,
    INJECTIONS_FILE,
    PRICES_FILE,
    BitflipsManifest,
    Price,
)
from experiments.record.result import Findings, not_measured
from experiments.report.text import percent

_ORIGINS = 12  # listed origins of silent corruptions


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % score interval (Wilson 1927, JASA 22), (0, 1) where total is 0; it also holds
    if there are few hits, or none.
    """
    if total == 0:
        return 0.0, 1.0
    interval = stats.binomtest(hits, total).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def analyse(folder: Path) -> Findings:
    manifest = cast(BitflipsManifest, manifest_if_any(folder))
    table = pl.read_parquet(folder / INJECTIONS_FILE)
    prices = json.loads((folder / PRICES_FILE).read_text(encoding="utf-8"))
    section = manifest["spec"]["bitflips"]
    by_program = _split(table, "program", "variant")
    rows = [row_of(program, variant, injections) for (program, variant), injections in by_program]
    by_variant = [(variant, injections) for (variant,), injections in _split(table, "variant")]
    pooled = [row_of("all", variant, injections) for variant, injections in by_variant]
    body = {
        "rows": rows,
        "pooled": pooled,
        "silent": {variant: silent_origins(injections) for variant, injections in by_variant},
        "price": price_rows(prices),
        "answers": _answers(folder),
        "programs": manifest["programs"],
        "asked": section,
        "outcomes_for_planner": {row["variant"]: planner_outcomes(row) for row in pooled},
    }
    verdicts = not_measured(manifest["verdicts"], _missing(rows, section))
    return Findings(body, verdicts, found=_silent_shares(pooled))


def _split(table: pl.DataFrame, *names: str) -> list[tuple[Any, list[Injection]]]:
    parts = table.partition_by(*names, as_dict=True)
    return [(key, cast(list[Injection], part.to_dicts())) for key, part in parts.items()]


def row_of(program: str, variant: str, injections: Sequence[Injection]) -> JsonObject:
    counts = Counter(injection["outcome"] for injection in injections)
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
            Counter(i["stream"] for i in injections if i["outcome"] == "silent")
        ),
    }


def planner_outcomes(row: Mapping[str, Any]) -> dict[str, JsonObject]:
    """Return the outcomes of PCRAFT's integrity model, with intervals.

    They are corrupt, crash (with stops) and retry; the rest is masked.
    """
    counts, total = row["counts"], row["injections"]
    hits = {
        "corrupt": counts["silent"],
        "crash": counts["crash"] + counts["hang"] + counts["detected"],
        "retry": counts["corrected"],
    }
    return {
        name: {"p": count / total if total else None, "interval": wilson(count, total)}
        for name, count in hits.items()
    }


def silent_origins(injections: Sequence[Injection]) -> list[JsonObject]:
    """Return the origins of a variant's silent corruptions, the most frequent first."""
    silent = [injection for injection in injections if injection["outcome"] == "silent"]
    origins = _counts(silent, "program", "function", "line", "stream", "opcode")
    return sorted(origins, key=lambda origin: -origin["count"])[:_ORIGINS]


def _counts(rows: Iterable[Mapping[str, Any]], *names: str) -> list[JsonObject]:
    """Return each combination of these keys' values with its number of rows, as it comes first."""
    counts = Counter(tuple(row[name] for name in names) for row in rows)
    return [
        {**dict(zip(names, values, strict=True)), "count": count}
        for values, count in counts.items()
    ]


def price_rows(prices: Sequence[Price]) -> list[JsonObject]:
    by_variant: dict[tuple[str, str], list[Price]] = defaultdict(list)
    for price in prices:
        by_variant[price["program"], price["variant"]].append(price)
    rows: list[JsonObject] = []
    for (program, variant), variant_prices in by_variant.items():
        variant_cpu_s = {price["repeat"]: price["cpu_s"] for price in variant_prices}
        native_cpu_s = {
            price["repeat"]: price["cpu_s"] for price in by_variant.get((program, "native"), ())
        }
        ratios = sorted(
            variant_cpu_s[n] / native_cpu_s[n]
            for n in variant_cpu_s
            if native_cpu_s.get(n, 0.0) > 0.0
        )
        rows.append({
            "program": program, "variant": variant, "repeats": len(variant_cpu_s),
            "cpu_s": median(variant_cpu_s.values()),
            "ratio": median(ratios) if ratios else None,
            "ratio_low": ratios[0] if ratios else None,
            "ratio_high": ratios[-1] if ratios else None,
            "requests_per_cpu_s": _rate(variant_prices, "cpu_s"),
            "requests_per_s": _rate(variant_prices, "took_s"),
            "transactions": _transactions(variant_prices),
        })  # fmt: skip
    return rows


def _transactions(prices: Sequence[Price]) -> dict[str, int] | None:
    """Hardware transactions begun in all repeats, and aborts by reason; None if there were none."""
    transactions = [price["transactions"] for price in prices if "transactions" in price]
    if not transactions:
        return None
    return {name: sum(counts[name] for counts in transactions) for name in transactions[0]}


def _rate(prices: Sequence[Price], time: Literal["cpu_s", "took_s"]) -> list[float] | None:
    """Least, median and greatest of a service's requests over a time; None for a kernel."""
    rates = sorted(price["requests"] / price[time] for price in prices if "requests" in price)
    return [rates[0], median(rates), rates[-1]] if rates else None


def _answers(folder: Path) -> list[JsonObject]:
    """Return the number of each kind of wrong answer of a service, under load and read back."""
    if not (folder / ANSWERS_FILE).exists():
        return []
    answers = pl.read_parquet(folder / ANSWERS_FILE).to_dicts()
    names = ("program", "variant", "fault", "phase")
    counts = _counts((answer for answer in answers if answer["fault"]), *names)
    return sorted(counts, key=itemgetter(*names))


def speed_of(price: Sequence[Mapping[str, Any]], variant: str) -> float | None:
    """Return the variant's speed as a share of native's: the geometric mean over programs."""
    ratios = [row["ratio"] for row in price if row["variant"] == variant and row["ratio"]]
    return math.exp(-sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def _missing(rows: Sequence[Mapping[str, Any]], section: Mapping[str, Any]) -> list[str]:
    pairs = {(row["program"], row["variant"]): row for row in rows}
    reasons = []
    for program in section["programs"]:
        for variant in section["variants"]:
            row = pairs.get((program, variant))
            done = row["injections"] if row else 0
            if done < section["injections"]:
                reasons.append(
                    f"{program}, {variant}: {done:,} of {section['injections']:,} injections"
                )
    return reasons


def _silent_shares(pooled: Sequence[Mapping[str, Any]]) -> str:
    return "silent: " + ", ".join(
        f"{row['variant']} {percent(row['shares']['silent'])}" for row in pooled
    )
