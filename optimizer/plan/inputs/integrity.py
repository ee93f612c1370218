"""`[slo.integrity]`, `[transient_faults]` and `[[tiers.variants]]` of plan.toml, as stated.

A variant is a way to build a tier's software (native, hardened), with the capacity of its nodes
relative to native ones, and the effect of a transient fault. Both have a source: a run, counts with
their source, or PCRAFT's Table I.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from core.config_file import Positive, Seconds, Share, Strict, Text, refusal
from core.errors import MOST
from optimizer.integrity import Recovery

Count = Annotated[int, Field(ge=0, le=10**12)]


class IntegritySlo(Strict):
    """`[slo.integrity]`: how much silent data corruption users may get.

    wrong_per_million: pages answered wrongly, of a million that are answered. corrupt_s_per_month:
    seconds of 30 d that a node of any tier is corrupt (PCRAFT Fig. 7). Both hold with at least
    `confidence`: a figure that was counted is taken at its upper bound.
    """

    wrong_per_million: Annotated[float, Field(gt=0, lt=1e6)] | None = None
    corrupt_s_per_month: Positive | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95

    @model_validator(mode="after")
    def _asks_something(self) -> IntegritySlo:
        if self.wrong_per_million is None and self.corrupt_s_per_month is None:
            raise refusal("wrong_per_million or corrupt_s_per_month", got="neither")
        return self


class TransientFaults(Strict):
    """`[transient_faults]`: how often they strike a node, per 30 d, and how long corruption lasts.

    Either `per_node_month`, taken as certain, or `count` of them seen in `node_months`.
    """

    per_node_month: Positive | None = None
    count: Count | None = None
    node_months: Positive | None = None
    source: Text
    sdc_recovery_s: Seconds = Recovery.sdc_s

    @model_validator(mode="after")
    def _is_one(self) -> TransientFaults:
        observed = (self.count is not None, self.node_months is not None)
        if observed[0] != observed[1] or (self.per_node_month is None) != observed[0]:
            raise refusal("per_node_month, or count and node_months", got=_set_keys(self, _RATE))
        return self


_RATE = ("per_node_month", "count", "node_months")
_COUNTS = ("corrupt", "crash", "retry")


class DeclaredVariant(Strict):
    """One of `[[tiers.variants]]`.

    Throughput: `nodt`, a node's over a native one's, with `nodt_source`; or `nodt_run` and
    `native_run`, of kind capacity, which may be one run of both: `workload` and `native_workload`
    say what of them (else what there is, if it is one, or the same).
    Outcomes of a fault: `pcraft`, a column of Table I; `run`, of kind bitflips, and its variant
    `of`; or counts of `injections` with `source`.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,18}$")]
    nodt: Share | None = None
    nodt_source: Text | None = None
    nodt_run: Text | None = None
    native_run: Text | None = None
    workload: Text | None = None
    native_workload: Text | None = None
    pcraft: Literal["native", "ft_ilr", "ft_tx"] | None = None
    run: Text | None = None
    of: Text | None = None
    corrupt: Count | None = None
    crash: Count | None = None
    retry: Count | None = None
    injections: Annotated[int, Field(ge=1, le=MOST)] | None = None
    source: Text | None = None

    @model_validator(mode="after")
    def _has_a_throughput(self) -> DeclaredVariant:
        stated = (self.nodt is not None, self.nodt_source is not None)
        by_run = (self.nodt_run is not None, self.native_run is not None)
        if stated[0] != stated[1] or by_run[0] != by_run[1] or stated[0] == by_run[0]:
            keys = ("nodt", "nodt_source", "nodt_run", "native_run")
            raise refusal(
                "nodt and nodt_source, or nodt_run and native_run", got=_set_keys(self, keys)
            )
        for key in ("workload", "native_workload"):
            if getattr(self, key) is not None and not by_run[0]:
                raise refusal("it with nodt_run", got="no nodt_run", key=key)
        return self

    @model_validator(mode="after")
    def _has_outcomes(self) -> DeclaredVariant:
        counts = [getattr(self, key) is not None for key in (*_COUNTS, "injections", "source")]
        run = [self.run is not None, self.of is not None]
        ways = [[self.pcraft is not None], run, counts]
        if any(any(way) and not all(way) for way in ways) or sum(all(way) for way in ways) != 1:
            keys = ("pcraft", "run", "of", *_COUNTS, "injections", "source")
            raise refusal(
                "pcraft; or run and of; or corrupt, crash, retry, injections and source",
                got=_set_keys(self, keys),
            )
        if self.injections is not None:
            hits = sum(getattr(self, key) for key in _COUNTS)
            if hits > self.injections:
                raise refusal(f"at most injections ({self.injections}) together", got=f"{hits}")
        return self


def _set_keys(stated: Strict, keys: tuple[str, ...]) -> str:
    return " and ".join(key for key in keys if getattr(stated, key) is not None) or "nothing"
