"""Settings that heal a row: each arm compared with the unchanged release (`reference`).

- **Gain**: the duration of the row's operation under the fault without the remedy, over that with
  it. Slowdowns would not do, because a remedy that only slows the base has a smaller slowdown and
  no gain.
- **Cost**: the duration without a fault with the remedy, over that without it.

Both have `slowdown`'s bounds. A wait of either side may have been cut short: a cut denominator then
counts as infinite in the lower bound and as measured in the upper one.

| gain | where |
|---|---|
| heals | as helps, and the operation is slow without the remedy and not with it (rule.py) |
| helps | the lower bound of the gain is above 1 |
| harms | the upper bound is below 1 |
| nothing shown | the bounds contain 1, and the upper is below the factor, or it is still slow |
| insufficient | else; or a base of either arm is not judged (cut short, too few, not steady) |

The cost is `costs`, `saves` or `none shown` in the same way. result.py adds the rule's verdicts of
node and cluster, because a remedy may leave the operation slow but keep nodes answering.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.kinds.limplock.judge.rule import Rule, Verdict, judge_operation, noise
from experiments.kinds.limplock.judge.slowdown import Duration, Slowdown, slowdown
from experiments.kinds.limplock.scenarios import BASE
from experiments.kinds.limplock.windows import Window, later_bases

Gain = Literal["heals", "helps", "harms", "nothing shown", "insufficient"]
Price = Literal["costs", "saves", "none shown", "insufficient"]


@dataclass(frozen=True)
class Ratio:
    """Durations over other durations. The median lies from `least` to `most`; these differ if waits
    near it were cut short. Each bound holds with the rule's confidence; None: no upper bound."""

    least: float
    most: float | None
    low: float
    high: float | None


@dataclass(frozen=True)
class Side:
    """An arm at a severity: its runs in order of the repeats, and their verdict by the rule."""

    arm: str
    base: tuple[Duration, ...]
    faulty: tuple[Duration, ...]
    operation: Verdict
    slowdown: Slowdown | None
    reason: str


@dataclass(frozen=True)
class Remedy:
    """The gain and cost of an arm at a severity; `reason` if they are not judged."""

    row: str
    part: str
    scenario: str
    without: Side
    remedy: Side
    gain: Gain
    buys: Ratio | None
    price: Price
    costs: Ratio | None
    reason: str


def remedies_of(windows: Sequence[Window], reference: str, rule: Rule) -> list[Remedy]:
    """Return every other arm's gain and cost, for each measured row, part and scenario."""
    return [
        _remedy(part_windows, scenario, (reference, arm), rule)
        for row, part in dict.fromkeys((window.row, window.part) for window in windows)
        for part_windows in [
            [window for window in windows if (window.row, window.part) == (row, part)]
        ]
        for arm in dict.fromkeys(window.arm for window in part_windows if window.arm != reference)
        for scenario in dict.fromkeys(
            window.scenario for window in part_windows if window.scenario != BASE
        )
    ]


def ratio(over: Sequence[Duration], under: Sequence[Duration], confidence: float) -> Ratio | None:
    """Return the ratio of the first durations over the second. None if there are too few for the
    confidence, or one of the second is 0.

    Parameters: over (n,) and under (m,), durations, each of which may be "at least".
    """
    if any(wait.seconds <= 0.0 for wait in under):
        return None
    longest = [math.inf if wait.at_least else wait.seconds for wait in under]
    below = slowdown(longest, over, confidence)
    above = slowdown([wait.seconds for wait in under], over, confidence)
    if below is None or above is None:
        return None
    most = None if above.at_least else above.factor
    return Ratio(below.factor, most, below.low, above.high)


def _remedy(windows: Sequence[Window], scenario: str, arms: tuple[str, str], rule: Rule) -> Remedy:
    without, remedy = (_side(windows, scenario, arm, rule) for arm in arms)
    buys = ratio(without.faulty, remedy.faulty, rule.confidence)
    costs = ratio(remedy.base, without.base, rule.confidence)
    reason = "; ".join(filter(None, (_unfit_reason(side, rule) for side in (without, remedy))))
    return Remedy(
        windows[0].row, windows[0].part, scenario, without, remedy,
        "insufficient" if reason else _judge_gain(without, remedy, buys, rule), buys,
        "insufficient" if reason else _judge_price(costs, rule), costs,
        reason,
    )  # fmt: skip


def _side(windows: Sequence[Window], scenario: str, arm: str, rule: Rule) -> Side:
    faulty = {
        window.repeat: window
        for window in windows
        if (window.arm, window.scenario) == (arm, scenario)
    }
    base = later_bases(window for window in windows if window.arm == arm)
    calm = tuple(base[repeat].duration for repeat in sorted(faulty))
    slow = tuple(faulty[repeat].duration for repeat in sorted(faulty))
    judgement = judge_operation(calm, slow, rule)
    return Side(arm, calm, slow, judgement.verdict, judgement.slowdown, judgement.reason)


def _unfit_reason(side: Side, rule: Rule) -> str:
    steady = side.slowdown and noise([wait.seconds for wait in side.base]) <= rule.noise_max
    return "" if steady else f"{side.arm}: {side.reason}"


def _judge_gain(without: Side, remedy: Side, buys: Ratio | None, rule: Rule) -> Gain:
    change = _change(buys, rule)
    if change == "more":
        healed = (without.operation, remedy.operation) == ("yes", "no")
        return "heals" if healed else "helps"
    if change == "less":
        return "harms"
    is_shown = change == "none" or remedy.operation == "yes"
    return "nothing shown" if is_shown else "insufficient"


def _judge_price(costs: Ratio | None, rule: Rule) -> Price:
    prices: dict[str, Price] = {"more": "costs", "less": "saves", "none": "none shown"}
    return prices.get(_change(costs, rule), "insufficient")


def _change(bounds: Ratio | None, rule: Rule) -> str:
    """Classify a ratio: more (above 1), less (below 1), none (smaller than the factor), or open."""
    if bounds is not None and bounds.low > 1.0:
        return "more"
    if bounds is None or bounds.high is None:
        return "open"
    if bounds.high < 1.0:
        return "less"
    return "none" if bounds.high < rule.factor else "open"
