"""Made-up nights of a design with a planted change, and the report of each night on it.

python -m experiments.nightly.planted

Two arms, 960 requests each a night. A night's latencies differ by 8 % within a run and by the
host, whose speed differs by 10 % from night to night and slows latencies and reference kernel
alike. The change is there from night 31 on. Each night is examined as `nightly` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from experiments.nightly.changes import Change, new_changes
from experiments.nightly.history import End, Gain, History, Percentile, Run
from experiments.nightly.words import change_words

T0 = datetime(2026, 11, 1, 1, 0, tzinfo=UTC)
REQUESTS = 960
_LATENCY_SPREAD, _HOST_SPREAD, _GAIN_SPREAD = 0.08, 0.1, 0.15
_KERNEL_PER_S, _USD_A_MONTH, _USD_A_MILLION = 14.0, 100.0, 8.5


@dataclass(frozen=True)
class Planted:
    """Differences from the night of the change on: factors, and failed requests an arm."""

    words: str
    slower: float = 1.0
    slower_host: float = 1.0
    dearer: float = 1.0
    errors: int = 0
    gain: float = 1.0
    until: int = 10_000  # the last night of it


PLANTED = (
    Planted("nothing"),
    Planted("both arms 4.5 times slower", slower=4.5),
    Planted("both arms 4.5 times slower, for two nights", slower=4.5, until=32),
    Planted("planned and measured cost three times as high", dearer=3.0),
    Planted("errors from 0 to 9 of 960 in both arms", errors=9),
    Planted("the gain of two copies gone", gain=0.4),
    Planted("the host 3 times slower, and the fleet with it", slower_host=3.0),
)


def made_up_nights(planted: Planted, nights: int = 40, seed: int = 20261128) -> list[list[Run]]:
    """Return the lines of each night."""
    rng = np.random.default_rng(seed)
    lines_by_night = []
    for night in range(1, nights + 1):
        active = planted if 31 <= night <= planted.until else Planted("nothing")
        host = math.exp(rng.normal(0, _HOST_SPREAD)) * active.slower_host
        p95_ms = 200.0 * host * active.slower * math.exp(rng.normal(0, _LATENCY_SPREAD))
        log = math.log(2.2 * active.gain) + rng.normal(0, _GAIN_SPREAD)
        beyond = 0.02 if p95_ms < 500 else 0.4  # of requests longer than the limit of p95
        lines_by_night.append(made_up_run(
            night, log=log, error=_GAIN_SPREAD, p95_ms=p95_ms, errors=active.errors,
            reference_per_s=_KERNEL_PER_S / host,
            burn={"p95_ms": rng.binomial(REQUESTS, beyond) / REQUESTS / 0.05},
            plan={"feasible": True, "usd_per_month": _USD_A_MONTH * active.dearer,
                  "p95_ms": 280.0, "prices_as_of": "2026-05-04"},
            cost={"usd": 0.02, "usd_per_month": 117.0 * active.dearer,
                  "usd_per_million_good": _USD_A_MILLION * active.dearer
                  * REQUESTS / (REQUESTS - active.errors)},
        ))  # fmt: skip
    return lines_by_night


def made_up_run(night: int, entry: str = "mediawiki-noisy", **changes: Any) -> list[Run]:
    """Return the two arms of a valid run.

    `log` and `error` are those of the gain, `p95_ms` is that of the replicated arm; the rest are
    keys of a line.
    """
    log, error = changes.pop("log", 0.5), changes.pop("error", 0.1)
    p95_ms = changes.pop("p95_ms", 300.0)
    at = T0 + timedelta(days=night)
    head: dict[str, Any] = {
        "night": night, "number": 1, "at": at, "entry": entry, "design": entry, "digest": "d1",
        "seed": 7, "experiment": entry, "run": f"{at:%Y%m%dT%H%M%SZ}", "folder": None,
        "kind": "compare", "platform": "local", "started": at, "minutes": 7.5, "exit_code": 0,
        "version": "0.1.0", "commit": f"c{night:04d}", "valid": True, "baseline": "baseline",
        "host": {"cpu": "Example CPU", "cores": 2, "kernel": "6.1.0"}, "judged": "replicated",
        "cost": {"usd": 0.02, "usd_per_month": 117.0}, "slo_set": "after",
        "slo": {"p95_ms": 500.0, "p99_ms": 1000.0},
        "plan": {"feasible": True, "usd_per_month": 100.0, "p95_ms": 280.0,
                 "prices_as_of": "2026-05-04"},
        "faults": {"injected": 8, "reverted": 8, "clean": True}, "burn": {"p95_ms": 0.4},
        "requests": REQUESTS, "core_speed": 20.0, "stolen_share": 0.01, **changes,
    }  # fmt: skip

    def tail(ms: float) -> dict[str, Any]:
        return {
            name: Percentile(
                ms=ms * factor,
                low_ms=ms * factor * 0.8,
                high_ms=ms * factor * 1.25,
                samples=REQUESTS,
            )
            for name, factor in (("p50", 0.3), ("p95", 1.0), ("p99", 1.8))
        }

    gain = Gain(log=log, low=log - 1.96 * error, high=log + 1.96 * error)
    met, burn = head.pop("slo_met", p95_ms <= 500.0), head.pop("burn")
    slower = tail(p95_ms * math.exp(log))
    return [
        Run(**head, arm="baseline", slo_met=False, **slower),
        Run(**head, arm="replicated", slo_met=met, burn=burn, **tail(p95_ms),
            gains={"mean": gain, "p95": gain, "p99": gain}),
    ]  # fmt: skip


def report_changes(
    nights: Sequence[Sequence[Run]], tell: Callable[[int, Sequence[Change]], None]
) -> dict[int, list[str]]:
    """Return the changes that each night reports first, by its number."""
    identities_by_night: dict[int, list[str]] = {}
    runs: list[Run] = []
    ends: list[End] = []
    for number, lines in enumerate(nights, start=1):
        runs += lines
        fresh = new_changes(History(runs=tuple(runs), ends=tuple(ends)))
        identities = tuple(change.identity for change in fresh)
        ends.append(End(night=number, at=lines[0].at, runs=1, changes=identities))
        if fresh:
            identities_by_night[number] = list(identities)
            tell(number, fresh)
    return identities_by_night


def main() -> None:
    """Print the reports on each planted change, night by night."""
    for planted in PLANTED:
        print(f"\n{planted.words}:")
        nights = made_up_nights(planted)

        def tell(number: int, fresh: Sequence[Change]) -> None:
            for change in fresh:
                print(f"  told in night {number}: {change_words(change)}")

        if not report_changes(nights, tell):
            print("  nothing is told")


if __name__ == "__main__":
    main()
