"""Estimates of a service from a run's records.

Counters of the arbiters are differenced between polls and the hosts' CPU is integrated over time,
before the first fault of each block (`core/runfiles/requests.py`). A machine's disturbed time (a
neighbour, a fault, and a second on both sides) is left out of estimates for the undisturbed
machine, because a CPU hog runs inside the machine's own cap and would count as work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from core.arrays import Floats
from core.runfiles.events import Window
from core.runfiles.requests import without_faults
from core.statistics.percentiles import OK, counted, percentile, time_out_of
from core.vocabulary import Scheme
from optimizer.fit.observed import check_times
from optimizer.fit.results import Results
from optimizer.fit.series import (
    Block,
    TierSeries,
    column,
    inside,
    overlap_s,
    tier_series,
    touched,
)
from optimizer.fit.service import ArmMeasure, Estimate, ServiceFit, TierFit
from optimizer.fit.spec import TierSpec

if TYPE_CHECKING:
    import polars as pl

_MARGIN_S = 1.0
_SAMPLES_LEAST = 100  # requests behind a capacity, a rate or a slowdown
_BEYOND_LEAST = 10  # samples beyond a percentile
_WITH_REPLICAS = ("mysql", "redis")  # protocols of which one server is asked to write, for all


def fit(results: Results) -> ServiceFit:
    """Fit the service that `results` measured.

    Returns: ServiceFit; estimates with too little evidence are marked as insufficient.
    Raises: InputError for impossible times.
    """
    blocks = _blocks(results.requests)
    series = {tier.name: tier_series(results.arbiters, tier.name) for tier in results.tiers}
    calm = _calm_arms(results, blocks)
    missing: list[str] = []
    thin: list[str] = []
    tiers: list[TierFit] = []
    for position, tier in enumerate(results.tiers):
        upstream = series[results.tiers[position - 1].name] if position else None
        backend = results.tiers[position + 1] if position + 1 < len(results.tiers) else None
        records = _TierRecords(results, tier, series[tier.name], upstream, blocks, calm)
        downstream_s = records.time_in(series[backend.name]) if backend else 0.0
        tiers.append(records.fit(downstream_s, missing, thin))
    pages = _page_rate(blocks)
    if not pages.sufficient:
        missing.append(f"page rate: {pages.samples:,} requests measured, {pages.least:,} needed")
    arms = tuple(_arm(results, name) for name in dict.fromkeys(block.arm for block in blocks))
    manifest = results.manifest
    scheme = str((manifest.get("fleet") or {}).get("scheme") or Scheme.cloud)
    service = ServiceFit(
        experiment=str(manifest.get("experiment") or ""),
        run=str(manifest.get("run") or ""),
        scheme=scheme,
        pages_per_s=pages,
        tiers=tuple(tiers),
        arms=arms,
        stated_rates={
            **results.failovers.rates(),
            **((manifest.get("spec") or {}).get("rates") or {}),
        },
        missing=tuple(missing),
        thin=(*thin, *_mixed_policies(results), *results.failovers.thin()),
        against=results.against,
        calibration=manifest.get("calibration"),
    )
    check_times(service, results.failovers)
    return service


def _blocks(requests: pl.DataFrame) -> list[Block]:
    import polars as pl

    groups = (
        without_faults(requests)
        .group_by("arm", "repeat")
        .agg(
            pl.col("intended_s").min().alias("start"),
            pl.col("intended_s").max().alias("end"),
            pl.len().alias("requests"),
        )
        .sort("start")
    )
    return [
        Block(
            str(row["arm"]),
            int(row["repeat"]),
            float(row["start"]),
            float(row["end"]),
            int(row["requests"]),
        )
        for row in groups.iter_rows(named=True)
    ]


def _page_rate(blocks: Sequence[Block]) -> Estimate:
    rates = [
        (block.requests - 1) / (block.end_s - block.start_s)
        for block in blocks
        if block.end_s > block.start_s
    ]
    total_s = sum(block.end_s - block.start_s for block in blocks)
    requests = sum(block.requests for block in blocks)
    value = (requests - len(blocks)) / total_s if total_s > 0 else None
    return Estimate(value, requests, _standard_error(rates), _SAMPLES_LEAST)


def _calm_arms(results: Results, blocks: Sequence[Block]) -> set[str]:
    """Return the arms without replication, whose latencies are of one copy; if none, all arms."""
    names = {block.arm for block in blocks}
    single = {name for name in names if set(_replicas(results, name)) == {1}}
    return single or names


def _replicas(results: Results, arm: str) -> tuple[int, ...]:
    return tuple(results.settings(arm, tier.name).replicas for tier in results.tiers)


def _mixed_policies(results: Results) -> list[str]:
    """Return notes on arms with several policies, for which there is no latency law."""
    front = results.tiers[0].name
    return [
        f"arm {arm}: its tiers' policies differ; its latency is taken for one of "
        f"{results.settings(arm, front).policy} in all"
        for arm in results.arms
        if len({results.settings(arm, tier.name).policy for tier in results.tiers}) > 1
    ]


def _arm(results: Results, name: str) -> ArmMeasure:
    import polars as pl

    rows = without_faults(results.requests).filter(pl.col("arm") == name)
    rows = rows.with_columns(counted(time_out_of(results.manifest)).alias("latency_ms"))
    rows = rows.sort("latency_ms")
    latency_ms = rows["latency_ms"].to_numpy()
    failed = rows.filter(pl.col("outcome") != OK).height
    blocks = [part["latency_ms"].to_numpy() for part in rows.partition_by("repeat")]
    return ArmMeasure(
        name=name,
        policy=results.settings(name, results.tiers[0].name).policy,
        replicas=_replicas(results, name),
        requests=rows.height,
        failed=failed,
        mean_ms=float(latency_ms.mean()) if len(latency_ms) else 0.0,
        p95_ms=_percentile(latency_ms, blocks, 95),
        p99_ms=_percentile(latency_ms, blocks, 99),
    )


def _percentile(all_ms: Floats, blocks: Sequence[Floats], q: int) -> Estimate:
    """Return a percentile [ms] of pooled ascending requests; needs ten samples beyond it."""
    samples_needed = math.ceil(_BEYOND_LEAST / (1 - q / 100) - 1e-9)
    block_values = [percentile(block, q / 100) for block in blocks]
    spread = _standard_error([value for value in block_values if value is not None])
    return Estimate(percentile(all_ms, q / 100), len(all_ms), spread, samples_needed)


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


class _TierRecords:
    """One tier's records in the blocks' time without faults, and the estimates from them."""

    def __init__(
        self,
        results: Results,
        tier: TierSpec,
        series: TierSeries,
        upstream: TierSeries | None,
        blocks: Sequence[Block],
        calm: set[str],
    ) -> None:
        self.results, self.tier, self.series, self.upstream = results, tier, series, upstream
        self.blocks = blocks
        self.calm_blocks = [block for block in blocks if block.arm in calm]

    def fit(self, downstream_s: float, missing: list[str], thin: list[str]) -> TierFit:
        processing = self._per_executed("cpu_cores")
        requests = self._per_copy(self.series.received)
        has_arbiter = self.tier.name in self.results.arbiters["tier"]
        if not has_arbiter:
            missing.append(
                f"tier {self.tier.name} has no arbiter, which would tell its requests: name it in "
                "`arbiters` of fleet.tfvars"
            )
        if has_arbiter and not processing.sufficient:
            missing.append(
                f"tier {self.tier.name}: processing time per request: {processing.samples:,} "
                f"undisturbed requests, {processing.least:,} needed"
            )
        # Unknown in spite of enough requests: the tier above is the one that lacks them.
        if has_arbiter and requests.samples < requests.least:
            missing.append(
                f"tier {self.tier.name}: requests per page: {requests.samples:,} seen, "
                f"{requests.least:,} needed"
            )
        share, gamma = self._share(), self._gamma(downstream_s)
        if (share.value or 0) > 0 and not gamma.sufficient:
            thin.append(
                f"tier {self.tier.name}: slowdown under interference from {gamma.samples:,} "
                f"requests, {gamma.least:,} needed; taken as no slowdown"
            )
        hold = self._token_hold_s()
        if not hold.sufficient:
            thin.append(f"tier {self.tier.name}: token hold time from {hold.samples:,} polls")
        writes, single_reads = self._access_shares()
        if 0 < writes.samples < writes.least:
            thin.append(
                f"tier {self.tier.name}: share of writes from {writes.samples:,} requests, "
                f"{writes.least:,} needed; taken as none"
            )
        windows = self._windows(self.results.interference)
        lengths = [window.end_s - window.start_s for window in windows]
        return TierFit(
            spec=self.tier,
            requests_per_copy=requests,
            connections_per_copy=self._per_copy(self.series.accepted)
            if self._by_connection
            else requests,
            processing_s=processing,
            card_kbit=self._card_kbit(),
            service_cv2=self._cv2(),
            token_hold_s=hold,
            tokens=max(
                self.results.settings(arm, self.tier.name).tokens for arm in self.results.arms
            ),
            interference_share=share,
            gamma=gamma,
            interference_run_s=float(np.mean(lengths)) if lengths else 0.0,
            write_share=writes,
            one_share=single_reads,
            writes_everywhere=self.series.protocol != "http",
        )

    @property
    def _by_connection(self) -> bool:
        return self.tier.token_hold == "connection"

    def time_in(self, backend: TierSeries) -> float:
        """Return a copy's wait here for the backend [s]: its requests times their mean latency."""
        copies = self._copies_between(self.calm_blocks, self.series)
        waited = 0.0
        for server in backend.servers.values():
            waited += self._gain(server.time_s, server.latency_s, self.calm_blocks)
        return waited / copies if copies > 0 else 0.0

    def _windows(self, windows: Sequence[Window], machine: str | None = None) -> list[Window]:
        names = set(self.series.servers) if machine is None else {machine}
        return [window for window in windows if window.machine in names]

    def _disturbed(self, machine: str) -> list[Window]:
        return self._windows([*self.results.interference, *self.results.faults], machine)

    def _gain(self, time_s: Floats, counter: Floats, blocks: Iterable[Block]) -> float:
        if len(time_s) < 2:
            return 0.0
        return float(np.diff(counter)[inside(time_s, blocks)].sum())

    def _copies_between(self, blocks: Iterable[Block], series: TierSeries) -> float:
        block_list = list(blocks)
        return sum(
            self._gain(server.time_s, server.requests, block_list)
            for server in series.servers.values()
        )

    def _per_copy(self, counter: Floats) -> Estimate:
        """Return the increments of a counter per copy executed upstream [-]; 1 at the entry."""
        if self.upstream is None:
            received = int(self._gain(self.series.time_s, self.series.received, self.blocks))
            return Estimate(1.0, received, 0.0, _SAMPLES_LEAST)
        ratios, total, copies = [], 0.0, 0.0
        for block in self.blocks:
            gained = self._gain(self.series.time_s, counter, [block])
            executed = self._copies_between([block], self.upstream)
            total, copies = total + gained, copies + executed
            if executed > 0:
                ratios.append(gained / executed)
        value = total / copies if copies > 0 and total > 0 else None
        return Estimate(value, int(total), _standard_error(ratios), _SAMPLES_LEAST)

    def _access_shares(self) -> tuple[Estimate, Estimate]:
        """Return two shares [-] of the reads and writes, by the arbiter's counters.

        These are the writes, and the reads for one certain machine.
        """
        series = self.series
        counters = np.stack([series.reads, series.writes, series.reads_of_one])
        increments = [
            [self._gain(series.time_s, counter, [block]) for counter in counters]
            for block in self.blocks
        ]
        read, written, single_reads = np.sum(increments, axis=0) if increments else np.zeros(3)
        large_blocks = [
            (reads + writes, writes, reads_of_one)
            for reads, writes, reads_of_one in increments
            if reads + writes >= _SAMPLES_LEAST / 10
        ]
        known_requests = int(read + written)

        def share(part: float, block_shares: list[float]) -> Estimate:
            value = float(part / known_requests) if known_requests else None
            return Estimate(value, known_requests, _standard_error(block_shares), _SAMPLES_LEAST)

        return (
            share(written, [writes / total for total, writes, _ in large_blocks]),
            share(single_reads, [reads_of_one / total for total, _, reads_of_one in large_blocks]),
        )

    def _applied(self, time_s: Floats) -> Floats:
        """Return the writes until each time that a machine executes as a replica, on average.

        The arbiter does not send these to it.
        """
        if self.series.protocol not in _WITH_REPLICAS:
            return np.zeros(len(time_s))
        others_share = 1.0 - 1.0 / len(self.series.servers)
        return others_share * np.interp(time_s, self.series.time_s, self.series.writes)

    def _card_kbit(self) -> Estimate:
        """Return the traffic per copy [kbit], of the direction that carries more."""
        directions = [self._per_executed(name) for name in ("net_rx_mbps", "net_tx_mbps")]
        mbit = max(directions, key=lambda direction: direction.value or 0.0)
        if mbit.value is None:
            return mbit
        spread = None if mbit.spread is None else 1e3 * mbit.spread
        return replace(mbit, value=1e3 * mbit.value, spread=spread)

    def _per_executed(self, use: str) -> Estimate:
        """Return the hosts' use per executed copy on undisturbed machines; blocks are replicates.

        Parameters: use, a column of the hosts' table, integrated over time.
        """
        import polars as pl

        ratios, used, executed = [], 0.0, 0.0
        for machine, server in self.series.servers.items():
            host = self.results.hosts.filter(pl.col("machine") == machine).sort("time_s")
            time_s, rate = column(host, "time_s"), column(host, use)
            if len(time_s) < 2 or len(server.time_s) < 2:
                continue
            quiet = ~touched(time_s, self._disturbed(machine), _MARGIN_S)
            lengths = np.diff(time_s)
            sent = np.interp(time_s, server.time_s, server.requests)
            requests = np.diff(sent + self._applied(time_s))
            for block in self.blocks:
                is_counted = quiet & inside(time_s, [block]) & (lengths < 5.0)
                amount = float((rate[1:] * lengths)[is_counted].sum())
                count = float(requests[is_counted].sum())
                used, executed = used + amount, executed + count
                if count >= _SAMPLES_LEAST / 10:
                    ratios.append(amount / count)
        value = used / executed if executed > 0 and used > 0 else None
        return Estimate(value, int(executed), _standard_error(ratios), _SAMPLES_LEAST)

    def _share(self) -> Estimate:
        machines = list(self.series.servers)
        spans = [(block, machine) for block in self.blocks for machine in machines]
        total_s = sum(block.end_s - block.start_s for block, _ in spans)
        windows = {
            machine: self._windows(self.results.interference, machine) for machine in machines
        }
        shares = [
            overlap_s(windows[machine], block) / (block.end_s - block.start_s)
            for block, machine in spans
            if block.end_s > block.start_s
        ]
        hit_s = sum(overlap_s(windows[machine], block) for block, machine in spans)
        value = hit_s / total_s if total_s > 0 else None
        return Estimate(
            value,
            sum(len(machine_windows) for machine_windows in windows.values()),
            _standard_error(shares),
        )

    def _gamma(self, downstream_s: float) -> Estimate:
        """Return the own mean latency without over with interference [-].

        Only arms without replication count.
        """
        time_s, count = [0.0, 0.0], [0.0, 0.0]
        ratios = []
        for machine, server in self.series.servers.items():
            if len(server.time_s) < 2:
                continue
            measured = inside(server.time_s, self.calm_blocks)
            hit = touched(server.time_s, self._windows(self.results.interference, machine), 0.0)
            near = touched(server.time_s, self._disturbed(machine), _MARGIN_S)
            sums = []
            for slot, mask in enumerate((measured & ~near, measured & hit)):
                spent_s = float(np.diff(server.latency_s)[mask].sum())
                answered = float(np.diff(server.count)[mask].sum())
                time_s[slot], count[slot] = time_s[slot] + spent_s, count[slot] + answered
                sums.append(spent_s / answered if answered >= 10 else None)
            if sums[0] and sums[1]:
                ratios.append(_slowdown(sums[0], sums[1], downstream_s))
        samples = int(min(count))
        if samples == 0:
            return Estimate(None, 0, None, _SAMPLES_LEAST)
        value = _slowdown(time_s[0] / count[0], time_s[1] / count[1], downstream_s)
        return Estimate(value, samples, _standard_error(ratios), _SAMPLES_LEAST)

    def _cv2(self) -> Estimate:
        """Estimate cv^2 from the last latency at each busy poll of undisturbed servers."""
        parts = []
        for machine, server in self.series.servers.items():
            if len(server.time_s) < 2:
                continue
            busy = inside(server.time_s, self.calm_blocks) & (np.diff(server.requests) > 0)
            busy &= ~touched(server.time_s, self._disturbed(machine), _MARGIN_S)
            parts.append(server.last_latency_s[1:][busy])
        latencies_s = np.concatenate(parts) if parts else np.zeros(0)
        latencies_s = latencies_s[latencies_s > 0]
        if len(latencies_s) < 2:
            return Estimate(None, len(latencies_s), None, 30)
        value = float(np.var(latencies_s, ddof=1) / np.mean(latencies_s) ** 2)
        return Estimate(value, len(latencies_s), None, 30)

    def _token_hold_s(self) -> Estimate:
        """Return the mean time a token is held [s], by Little's law.

        It is the tokens in use over the rate at which copies take them, while TAD ran.
        """
        tier = self.series
        if len(tier.time_s) < 2:
            return Estimate(None, 0, None, 10)
        tad_intervals = inside(tier.time_s, self.blocks) & tier.tad[1:] & tier.tad[:-1]
        length_s = float(np.diff(tier.time_s)[tad_intervals].sum())
        held_s = float((tier.tokens_in_use[1:] * np.diff(tier.time_s))[tad_intervals].sum())
        if self._by_connection:
            holds = float((np.diff(tier.accepted) * tier.replicas[1:])[tad_intervals].sum())
        else:
            holds = 0.0
            for server in tier.servers.values():
                both_polls = server.tad[1:] & server.tad[:-1]
                measured = inside(server.time_s, self.blocks) & both_polls
                holds += float(np.diff(server.requests)[measured].sum())
        value = held_s / holds if holds > 0 and held_s > 0 and length_s > 0 else None
        return Estimate(value, int(tad_intervals.sum()), None, 10)


def _slowdown(quiet_s: float, disturbed_s: float, downstream_s: float) -> float:
    """Return the speed ratio [-] of the tier itself, without the wait for the backend."""
    own_s = max(quiet_s - downstream_s, 0.1 * quiet_s)
    hit_s = max(disturbed_s - downstream_s, own_s)
    return float(np.clip(own_s / hit_s, 0.02, 1.0))
