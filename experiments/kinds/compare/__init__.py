"""Arms of one design, compared block by block. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.kinds.compare.headline import headline, is_a_chain
from experiments.report.text import factor, interval, statistic, usd
from experiments.run.kind import Kind, NoSection, SectionT

if TYPE_CHECKING:
    from rich.console import Console

    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.record.result import Findings
    from experiments.testbed.testbed import Testbed


class CompareKind(Kind[SectionT]):
    """Interleaved blocks of arms, each pair on the same arrivals, neighbours and faults."""

    name = "compare"
    summary = "arms of one design, block by block, with improvement factors and a plan"
    plans = True
    decides = True
    calibrates = True
    varies = True

    def utilisation(self, design: Design, results: Path) -> Mapping[str, Any]:
        """Predict it from the work that the newest valid run of the design measured."""
        from experiments.kinds.compare.utilisation import predicted_utilisation

        return predicted_utilisation(design, results)

    def measure(self, testbed: Testbed, section: SectionT) -> None:
        """Every block of the design."""
        from experiments.kinds.compare.measure import measure

        del section
        measure(testbed)

    def analyse(self, folder: Path) -> Findings:
        """Every figure of the arms; plan.json, simulated.json and histograms.json beside it."""
        from experiments.kinds.compare.analysis import analyse

        return analyse(folder)

    def write_page(self, folder: Path) -> Path:
        """Figures and tables of the arms."""
        from experiments.kinds.compare.page import write_report

        return write_report(folder)

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """Arms, factors, verdicts; then the sentences of the page's first screen."""
        from experiments.kinds.compare.folder import read_folder
        from experiments.kinds.compare.terminal import print_summary

        del result  # the folder has it
        print_summary(read_folder(page.parent), console, page)

    def compared_values(self, result: Result) -> Mapping[str, Any]:
        """Return the planned fleet's cost, gains of the arm that `row` speaks of, which is named
        where there are several, then what each arm's requests took.
        """
        body = result[result["kind"]]
        planned = {"planned fleet, USD a month": _planned_usd(body)}
        if is_a_chain(body):
            whose, gains = {}, _gains_of_steps(body)
        else:
            other, entries = _compared(body)
            gains = {f"{statistic(what)} gain": _gain(one) for what, one in entries.items()}
            whose = {"gains of": other} if any(gains.values()) and len(body["arms"]) > 2 else {}
        gains = {what: gain for what, gain in gains.items() if gain}
        arms = {
            f"{arm} {name}": one.get(name)
            for arm, one in body["arms"].items()
            for name in ("requests", "error_share", "p50_ms", "p95_ms", "p99_ms")
        }
        return {**planned, **whose, **gains, **arms}

    def levels(self, result: Result) -> Mapping[str, float]:
        """Utilisation of each tier, in runs of an adopted plan, which measure it; the rate, where a
        calibration found it."""
        body = result[result["kind"]]
        predicted, calibration = body.get("predicted") or {}, body.get("calibration")
        rate = {"rate_per_s": float(calibration["rate_per_s"])} if calibration else {}
        return rate | {
            f"utilisation/{tier}": float(one["measured"])
            for tier, one in (predicted.get("utilisation") or {}).items()
            if one["measured"] is not None
        }

    def row(self, result: Result) -> Mapping[str, Any]:
        """The p95 factor of a run from which something follows, of a plan's fleet whether the
        promise was kept, and what the plan costs."""
        body = result[result["kind"]]
        other, entries = _compared(body)
        gain = _gain(entries.get("p95") or {}) if other and result["valid"] else ""
        found = {"p95 gain": gain} if gain else {"arms": len(body["arms"])}
        if promise := result["promise"]:
            found = {"promise": promise["verdict"]}
        planned = _planned_usd(body)
        return found if planned is None else {**found, "plan": f"{usd(planned)} a month"}


def _compared(body: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Mapping[str, Any]]]:
    """Return the arm that is held against the baseline, of many the best, and its factors."""
    compared = body.get("compared") or {}
    _, other, entries = headline(compared.get("baseline", ""), compared.get("other"), body)
    return other, entries


def _gains_of_steps(body: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"{statistic(what)} gain, {step['arm']} over {step['base']}": _gain(one)
        for step in body["steps"]
        for what, one in step["factors"].items()
    }


def _gain(entry: Mapping[str, Any]) -> str:
    """ "2.13 × (1.60 to 2.81)"; "" where there is no factor or no interval of it."""
    if entry.get("factor") is None or entry.get("ci_low") is None:
        return ""
    return f"{factor(entry['factor'])} ({interval(entry['ci_low'], entry['ci_high'])})"


def _planned_usd(body: Mapping[str, Any]) -> float | None:
    plan = body.get("plan") or {}
    planned: float | None = plan.get("usd_per_month") if plan.get("feasible") else None
    return planned


KIND = CompareKind[NoSection]()
