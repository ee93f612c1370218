"""Arms of one design, compared block by block. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.kinds.compare.headline import headline, is_a_chain
from experiments.report.text import SLO_WORDS, factor, interval, statistic, usd
from experiments.run.kind import Kind, NoSection, SectionT

if TYPE_CHECKING:
    from core.runfiles.result import Promise, Result
    from experiments.design import Design
    from experiments.testbed.testbed import Testbed


class CompareKind(Kind[SectionT]):
    """Interleaved blocks of arms, each pair on the same arrivals, neighbours and faults."""

    name = "compare"
    summary = "arms of one design, block by block, with improvement factors and a plan"
    plans = True
    decides = True
    calibrates = True
    varies = True
    prints = "terminal.print_result"

    def utilisation(self, design: Design, results: Path) -> Mapping[str, Any]:
        """Predict the utilisation from the work in the newest valid run of the design."""
        from experiments.kinds.compare.utilisation import predicted_utilisation

        return predicted_utilisation(design, results)

    def measure(self, testbed: Testbed, section: SectionT) -> None:
        from experiments.kinds.compare.measure import measure

        del section
        measure(testbed)

    def compared_values(self, result: Result) -> Mapping[str, Any]:
        """Return the planned fleet's cost, the gains of the best arm, and each arm's latencies.

        The best arm is named where there are several; a chain of arms has the gains of its steps.
        """
        body = result[result["kind"]]
        planned = {"planned fleet, USD a month": _planned_usd(body)}
        if is_a_chain(body):
            gain_owner, gains = {}, _gains_of_steps(body)
        else:
            best_arm, entries = _best_arm_factors(body)
            gains = {
                f"{statistic(figure)} gain": _gain(factor_entry)
                for figure, factor_entry in entries.items()
            }
            gain_owner = (
                {"gains of": best_arm} if any(gains.values()) and len(body["arms"]) > 2 else {}
            )
        gains = {figure: gain for figure, gain in gains.items() if gain}
        arms = {
            f"{arm} {name}": figures.get(name)
            for arm, figures in body["arms"].items()
            for name in ("requests", "error_share", "p50_ms", "p95_ms", "p99_ms")
        }
        return {**planned, **gain_owner, **gains, **arms}

    def levels(self, result: Result) -> Mapping[str, float]:
        """Return each tier's utilisation from runs of an adopted plan, which measure it, and the
        calibrated rate if there is one."""
        body = result[result["kind"]]
        predicted, calibration = body.get("predicted") or {}, body.get("calibration")
        rate = {"rate_per_s": float(calibration["rate_per_s"])} if calibration else {}
        return rate | {
            f"utilisation/{tier}": float(use["measured"])
            for tier, use in (predicted.get("utilisation") or {}).items()
            if use["measured"] is not None
        }

    def row(self, result: Result) -> Mapping[str, Any]:
        """Return the p95 factor of a valid run, or the promise's verdict for a plan's fleet, and
        the cost of the plan."""
        body = result[result["kind"]]
        arm, entries = _best_arm_factors(body)
        gain = _gain(entries.get("p95") or {}) if arm and result["valid"] else ""
        values = {"p95 gain": gain} if gain else {"arms": len(body["arms"])}
        if promise := result["promise"]:
            values = _promise_values(promise)
        planned = _planned_usd(body)
        return values if planned is None else {**values, "plan": f"{usd(planned)} a month"}


def _promise_values(promise: Promise) -> dict[str, Any]:
    if promise["claimed"]:
        return {"promise": promise["verdict"]}
    key = "refused by the plan, SLO" if promise["refused"] else "nothing promised, SLO"
    return {key: SLO_WORDS[promise["verdict"]]}


def _best_arm_factors(
    body: Mapping[str, Any],
) -> tuple[str | None, Mapping[str, Mapping[str, Any]]]:
    """Return the arm that is compared with the baseline, the best of several, and its factors."""
    compared = body.get("compared") or {}
    _, arm, entries = headline(compared.get("baseline", ""), compared.get("other"), body)
    return arm, entries


def _gains_of_steps(body: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"{statistic(figure)} gain, {step['arm']} over {step['base']}": _gain(factor_entry)
        for step in body["steps"]
        for figure, factor_entry in step["factors"].items()
    }


def _gain(entry: Mapping[str, Any]) -> str:
    """Return a gain such as "2.13 × (1.60 to 2.81)"; "" without a factor or its interval."""
    if entry.get("factor") is None or entry.get("ci_low") is None:
        return ""
    return f"{factor(entry['factor'])} ({interval(entry['ci_low'], entry['ci_high'])})"


def _planned_usd(body: Mapping[str, Any]) -> float | None:
    plan = body.get("plan") or {}
    planned: float | None = plan.get("usd_per_month") if plan.get("feasible") else None
    return planned


KIND = CompareKind[NoSection]()
