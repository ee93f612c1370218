"""[[remedies]] of plan.toml: measures against limping machines, with their prices.

A detector that removes slow cards sooner, hedged reads, a shorter time-out: each changes the rate,
the duration or the remaining capacity of limping, and has a price per month. The remaining capacity
may come from a run of kind limplock (limping.py), from the arm with the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, model_validator

from core.config_file import ConfigFile, Seconds, Share, Strict, Text, named_twice, refusal
from core.errors import MOST, InputError
from core.units import LIMPS_PER_YEAR_MOST
from optimizer.availability import FailureRates
from optimizer.plan.solve.options import Degraded

_TAKEN = (
    "nothing",
    "spares",
    "replication",
    "plan",
)  # names of other measures in `limping.cheapest`
_RATES = ("limp_per_year", "limp_recovery_s", "limp_capacity")


class Remedy(Strict):
    """One remedy. What it does not state stays as it is in [rates] and [slo.degraded]."""

    name: Text
    usd_per_month: Annotated[float, Field(ge=0, le=MOST)]
    limp_per_year: Annotated[float, Field(ge=0, le=LIMPS_PER_YEAR_MOST)] | None = None
    limp_recovery_s: Seconds | None = None
    limp_capacity: Annotated[float, Field(ge=0, le=1)] | None = None
    limp_speed: Share | None = None

    @model_validator(mode="after")
    def _does_something(self) -> Remedy:
        if not self.rates and self.limp_speed is None:
            raise refusal(f"one of {', '.join((*_RATES, 'limp_speed'))}", got="none of them")
        return self

    @property
    def rates(self) -> dict[str, Any]:
        """The figures of [rates] that it changes."""
        return self.model_dump(include=set(_RATES), exclude_none=True)

    def with_degraded(self, degraded: Degraded | None) -> Degraded | None:
        if degraded is None or self.limp_speed is None:
            return degraded
        return degraded.model_copy(update={"limp_speed": self.limp_speed})


def without_limping(degraded: Degraded | None) -> Degraded | None:
    """Return the degraded condition without limping machines; None if it is then empty."""
    if degraded is None or not degraded.nodes_down:
        return None
    return degraded.model_copy(update={"limping": 0, "limp_speed": 1.0})


def check_remedies(
    remedies: Sequence[Remedy],
    rates: FailureRates,
    degraded: Degraded | None,
    source: ConfigFile,
) -> None:
    """Raises InputError for a remedy without effect, a name used twice, and a reserved name."""
    source.refuse_all(named_twice([remedy.name for remedy in remedies], "remedies"))
    limping = degraded is not None and degraded.limping > 0
    for number, remedy in enumerate(remedies):
        if remedy.name in _TAKEN:
            expected = f"a name other than {', '.join(_TAKEN)}, which are ways themselves"
            raise source.error("remedies", number, "name", expected=expected, got=repr(remedy.name))
        for key in remedy.rates:
            if not rates.limp_per_year:
                raise _without_effect(source, number, key, "[rates] limp_per_year")
        if remedy.limp_speed is not None and not limping:
            raise _without_effect(source, number, "limp_speed", "[slo.degraded] limping = 1")


def _without_effect(source: ConfigFile, number: int, key: str, required: str) -> InputError:
    return source.error(
        "remedies",
        number,
        key,
        expected=f"{required} beside it",
        got="none",
        hint="State both.",
    )
