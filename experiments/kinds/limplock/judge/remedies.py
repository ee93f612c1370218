"""Settings that heal a row: each arm compared with the unchanged release (`reference`).

- **Gain**: the duration of the row's operation under the fault without the remedy, over that with
  it. Slowdowns would not do, because a remedy that only slows the base has a smaller slowdown and
  no gain.
- **Cost**: the duration without a fault with the remedy, over that without it.

Both have `slowdown`'s bounds. A wait of either side may have been cut short: a cut denominator then
counts as infinite in the lower bound and as measured in the upper one.

| gain | where |
|---|---|
| heals | the operation is slow without the remedy and not with it (rule.py), and the next |
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
    """Durations over others. The median is from `least` to `most`: two where waits were cut short
    about it. Each bound holds with the rule's confidence; None: there is no upper one."""

    least: float
    most: float | None
    low: float
    high: float | None


@dataclass(frozen=True)
class Side:
    """An arm at a severity: its runs in order of the repeats, and what the rule says of them."""

    arm: str
    base: tuple[Duration, ...]
    faulty: tuple[Duration, ...]
    operation: Verdict
    slowdown: Slowdown | None
    reason: str


@dataclass(frozen=True)
class Remedy:
    """The gain and cost of an arm at a severity; `reason` where that is not judged."""

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
    """Every other arm of each row, part and scenario, as they were measured."""
    return [
        _remedy(mine, scenario, (reference, arm), rule)
        for row, part in dict.fromkeys((one.row, one.part) for one in windows)
        for mine in [[one for one in windows if (one.row, one.part) == (row, part)]]
        for arm in dict.fromkeys(one.arm for one in mine if one.arm != reference)
        for scenario in dict.fromkeys(one.scenario for one in mine if one.scenario != BASE)
    ]


def ratio(over: Sequence[Duration], under: Sequence[Duration], confidence: float) -> Ratio | None:
    """Return the first over the second; None if there are too few to be that sure, or one of no
    length.

    Parameters: over (n,) and under (m,), durations, each of which may be "at least".
    """
    if any(one.seconds <= 0.0 for one in under):
        return None
    longest = [math.inf if one.at_least else one.seconds for one in under]
    below = slowdown(longest, over, confidence)
    above = slowdown([one.seconds for one in under], over, confidence)
    if below is None or above is None:
        return None
    most = None if above.at_least else above.factor
    return Ratio(below.factor, most, below.low, above.high)


def _remedy(mine: Sequence[Window], scenario: str, arms: tuple[str, str], rule: Rule) -> Remedy:
    without, remedy = (_side(mine, scenario, arm, rule) for arm in arms)
    buys = ratio(without.faulty, remedy.faulty, rule.confidence)
    costs = ratio(remedy.base, without.base, rule.confidence)
    reason = "; ".join(filter(None, (_unfit(side, rule) for side in (without, remedy))))
    return Remedy(
        mine[0].row, mine[0].part, scenario, without, remedy,
        "insufficient" if reason else _gain(without, remedy, buys, rule), buys,
        "insufficient" if reason else _price(costs, rule), costs,
        reason,
    )  # fmt: skip


def _side(mine: Sequence[Window], scenario: str, arm: str, rule: Rule) -> Side:
    faulty = {w.repeat: w for w in mine if (w.arm, w.scenario) == (arm, scenario)}
    base = later_bases(w for w in mine if w.arm == arm)
    calm = tuple(base[repeat].waited for repeat in sorted(faulty))
    slow = tuple(faulty[repeat].waited for repeat in sorted(faulty))
    found = judge_operation(calm, slow, rule)
    return Side(arm, calm, slow, found.verdict, found.slowdown, found.reason)


def _unfit(side: Side, rule: Rule) -> str:
    """Why nothing can be said of an arm; "" where something can."""
    steady = side.slowdown and noise([one.seconds for one in side.base]) <= rule.noise_max
    return "" if steady else f"{side.arm}: {side.reason}"


def _gain(without: Side, remedy: Side, buys: Ratio | None, rule: Rule) -> Gain:
    change = _change(buys, rule)
    if change == "more":
        healed = (without.operation, remedy.operation) == ("yes", "no")
        return "heals" if healed else "helps"
    if change == "less":
        return "harms"
    shown = change == "none" or remedy.operation == "yes"
    return "nothing shown" if shown else "insufficient"


def _price(costs: Ratio | None, rule: Rule) -> Price:
    words: dict[str, Price] = {"more": "costs", "less": "saves", "none": "none shown"}
    return words.get(_change(costs, rule), "insufficient")


def _change(found: Ratio | None, rule: Rule) -> str:
    """Return the side of a ratio: above 1, below it, none that is as large as the factor,
    or open.
    """
    if found is not None and found.low > 1.0:
        return "more"
    if found is None or found.high is None:
        return "open"
    if found.high < 1.0:
        return "less"
    return "none" if found.high < rule.factor else "open"
