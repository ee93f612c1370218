r"""Error of the latency law, and the margin with which a plan keeps its limits in spite of it.

The error of the law is E = true / predicted; ln E is taken as Student's t around 0. Its spread
comes from earlier comparisons (the table of `optimizer/latency/README.md`, here `RECORDED`), with
the weight of `_WEIGHT` observations, and from a run's own arms, each predicted from the others and
measured:

    s^2 = (w s_0^2 + sum_j ln(measured_j / predicted_j from the others)^2) / (w + n),  w + n degrees
          of freedom; the standard error of the calibrating arms' percentiles comes on top

A chance constraint over all that is uncertain (k figures: the law, the demand, each rate) holds
with probability c if each figure is taken at its quantile c^{1/k}: they are independent, and each
limit is harder to keep the larger a figure is. So P(all limits kept) >= c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# predicted / true: both ends of each row of the README's table, except that of drawn pages
RECORDED: dict[int, tuple[float, ...]] = {
    95: (1.01, 1.08, 1.00, 1.08, 1.23, 1.48, 0.94, 1.44, 1.42, 0.80),
    99: (0.97, 0.99, 0.83, 1.03, 1.16, 1.40, 0.95, 1.92, 1.48, 0.72),
}
_WEIGHT = 2.0  # the record counts like this many observations of a run


@dataclass(frozen=True)
class LawError:
    """ln(true / predicted) of one percentile: `spread` times Student's t."""

    spread: float
    freedom: float
    source: str

    def factor(self, level: float) -> float:
        """Return the bound of truth / prediction that holds with probability `level`.

        It is at least 1.
        """
        from scipy.special import stdtrit

        return math.exp(max(0.0, self.spread * float(stdtrit(self.freedom, level))))

    def probability_within(self, predicted_ms: float, limit_ms: float) -> float:
        """Return P(the true percentile is within the limit)."""
        from scipy.special import stdtr

        return float(stdtr(self.freedom, math.log(limit_ms / predicted_ms) / self.spread))


def law_error(q: int, residuals: Sequence[float], standard_errors: Sequence[float]) -> LawError:
    """Return the error of percentile q's predictions.

    Parameters: residuals, ln(measured / predicted from the others) of a run's arms; standard_errors
    of the arms' measured percentiles, relative.
    """
    recorded = [math.log(value) for value in RECORDED[q]]
    squares = math.fsum(value**2 for value in recorded) / len(recorded)
    if not residuals:
        count = len(recorded)
        return LawError(math.sqrt(squares), count, f"the law's record, {count} comparisons")
    weight = _WEIGHT + len(residuals)
    pooled = (_WEIGHT * squares + math.fsum(value**2 for value in residuals)) / weight
    sampling = math.fsum(value**2 for value in standard_errors) / max(1, len(standard_errors))
    source = f"{len(residuals)} arms, each predicted from the others, beside the law's record"
    return LawError(math.sqrt(pooled + sampling), weight, source)


def level_of(confidence: float | None, figures: int) -> float | None:
    """Return the level of each of so many uncertain figures; None without a confidence."""
    return None if confidence is None else confidence ** (1.0 / max(1, figures))
