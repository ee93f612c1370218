r"""Failure rates, some of which are known only from few observations.

A [rates] table has a number for a figure that is certain, and a table for one that was observed:

    crash_per_year = { count = 3, node_years = 2.1 }        # or 1.0; a prior: prior_count = 0.5,
    failover_s = { samples = [12.1, 14.0, 15.2] }           #   prior_node_years = 0
    repair_s = 3600
    standby_fraction = 0.1                                  # any other field of FailureRates

The uncertain figures are taken as independent of each other. A larger figure makes availability
worse: this holds for all models of `optimizer.availability` without limping nodes. With limping
nodes it need not hold, because a crash and a replacement end a limp; this module then does not
rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from core.errors import InputError, require_share
from optimizer.availability import FailureRates
from optimizer.uncertainty.posterior import (
    BootstrapMean,
    ExponentialMean,
    Posterior,
    RatePosterior,
    rate_posterior,
    time_posterior,
)

if TYPE_CHECKING:
    import numpy as np

UNCERTAIN = ("crash_per_year", "failover_s", "repair_s")
_KINDS = (RatePosterior, ExponentialMean, BootstrapMean)
_OBSERVED = ("count", "node_years", "prior_count", "prior_node_years")


@dataclass(frozen=True)
class UncertainRates:
    """FailureRates in which crash, fail-over and repair may each be a posterior.

    `others` holds further fields of FailureRates, as plain values.
    """

    crash_per_year: float | RatePosterior = 1.0
    failover_s: float | ExponentialMean | BootstrapMean = 15.0
    repair_s: float | ExponentialMean | BootstrapMean | None = None
    others: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        allowed = {f.name for f in fields(FailureRates)} - set(UNCERTAIN)
        for name in self.others:
            if name not in allowed:
                raise _unknown_key_error(name, (*UNCERTAIN, *sorted(allowed)))
        self.mean()  # FailureRates refuses what it cannot be

    @property
    def uncertain(self) -> dict[str, Posterior]:
        """The uncertain figures by name."""
        values = {name: getattr(self, name) for name in UNCERTAIN}
        return {n: v for n, v in values.items() if isinstance(v, _KINDS)}

    @property
    def monotone(self) -> bool:
        """True if availability is sure to fall with each uncertain figure (no limping nodes)."""
        return not self.mean().limps

    def with_values(self, values: Mapping[str, float]) -> FailureRates:
        """Return the rates with a value for each uncertain figure."""
        certain = {n: getattr(self, n) for n in UNCERTAIN if n not in self.uncertain}
        return FailureRates(**{**certain, **self.others, **values})

    def with_means(self, *names: str) -> UncertainRates:
        """Return the rates with `names` at their means, for figures that a model does not use."""
        known: dict[str, Any] = {n: p.mean() for n, p in self.uncertain.items() if n in names}
        return replace(self, **known)

    def mean(self) -> FailureRates:
        """Return all figures at their posterior means.

        (The availability at these rates is not the mean availability.)
        """
        return self.with_values(
            {name: posterior.mean() for name, posterior in self.uncertain.items()}
        )

    def at(self, confidence: float) -> FailureRates:
        r"""Return rates that are all at least as bad as the true ones, with `confidence`.

        Each of k uncertain figures is at its quantile confidence^(1/k). They are independent, so
        all true values lie below with probability `confidence`. Then no model without limping has a
        lower availability: P(A >= A(corner)) >= confidence, with equality for k = 1.
        """
        require_share("confidence", confidence, one=False)
        return self.at_level(confidence ** (1.0 / max(1, len(self.uncertain))))

    def at_level(self, level: float) -> FailureRates:
        """Return each uncertain figure at this quantile."""
        known = self.uncertain
        return self.with_values(
            {name: posterior.quantile(level) for name, posterior in known.items()}
        )

    def sample(self, rng: np.random.Generator, n: int) -> list[FailureRates]:
        """Return `n` draws of all uncertain figures together."""
        draws = {name: posterior.sample(rng, n) for name, posterior in self.uncertain.items()}
        return [self.with_values({k: float(v[i]) for k, v in draws.items()}) for i in range(n)]


def rates_from(table: Mapping[str, Any], place: str = "rates") -> UncertainRates:
    """Return the rates in a [rates] table (see the top of the module).

    Errors name the table by `place`.

    Raises: InputError with the key's name for an unknown key, and for a value that cannot be.
    """
    allowed = [f.name for f in fields(FailureRates)]
    for name in table:
        if name not in allowed:
            raise _unknown_key_error(f"{place}.{name}", allowed)
    try:
        figures = {name: _read(name, table[name]) for name in UNCERTAIN if name in table}
        return UncertainRates(
            **figures, others={n: v for n, v in table.items() if n not in UNCERTAIN}
        )
    except InputError as error:
        raise error.at(f"{place}.{error.place}") from error


def _read(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value  # FailureRates checks it
    try:
        return _read_rate(value) if name == "crash_per_year" else _read_time(value)
    except InputError as error:
        raise error.at(f"{name}.{error.place}") from error


def _read_rate(table: Mapping[str, Any]) -> RatePosterior:
    for key in table:
        if key not in _OBSERVED:
            raise _unknown_key_error(key, _OBSERVED)
    for key in _OBSERVED[:2]:
        if key not in table:
            raise InputError(key, expected="a number", got="nothing")
    return rate_posterior(
        table["count"],
        table["node_years"],
        prior_count=table.get("prior_count", 0.5),
        prior_years=table.get("prior_node_years", 0.0),
    )


def _read_time(table: Mapping[str, Any]) -> ExponentialMean | BootstrapMean:
    for key in table:
        if key != "samples":
            raise _unknown_key_error(key, ("samples",))
    samples = table.get("samples")
    if not isinstance(samples, list | tuple):
        raise InputError("samples", expected="a list of times [s]", got=repr(samples))
    return time_posterior(samples)


def _unknown_key_error(place: str, known: list[str] | tuple[str, ...]) -> InputError:
    return InputError(place, expected=f"one of {', '.join(known)}", got="an unknown key")
