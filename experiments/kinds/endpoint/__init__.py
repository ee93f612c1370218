"""Load on a service that somebody else runs, at its URL. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.design.target import Target
from experiments.kinds.compare import CompareKind
from experiments.report.text import milliseconds, percent

if TYPE_CHECKING:
    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.testbed.platforms import Platform
    from experiments.testbed.testbed import Testbed


class EndpointKind(CompareKind[Target]):
    """Blocks of load and their figures as in a comparison, without a fleet: only what a client can
    measure."""

    name = "endpoint"
    summary = "a service that somebody else runs, at its URL: load and latencies, nothing else"
    needs_fleet = False
    plans = False
    decides = False
    calibrates = False
    prints = "page.print_result"

    def load_s(self, design: Design, section: Target) -> float:
        from experiments.design.schedule import load_length_s

        del section
        return load_length_s(design.experiment)

    def utilisation(self, design: Design, results: Path) -> Any:
        """Return nothing: the machines are not known."""
        del design, results

    def check_host(self, design: Design, section: Target, platform: Platform) -> None:
        """Check that the service answers, with a certificate if its URL needs one."""
        from experiments.kinds.endpoint.measure import check_target

        del platform
        check_target(design, section)

    def measure(self, testbed: Testbed, section: Target) -> None:
        from experiments.kinds.endpoint.measure import measure

        measure(testbed, section)

    def compared_values(self, result: Result) -> Mapping[str, Any]:
        body = result[self.name]
        arm: Mapping[str, Any] = next(iter(body["arms"].values()), {})
        names = ("requests", "error_share", "offered_per_s", "p50_ms", "p95_ms", "p99_ms")
        values = {"service": body["target"], **{name: arm.get(name) for name in names}}
        if len(body["operations"]) > 1:
            for name, arms in body["operations"].items():
                values |= {f"{name} p95_ms": figures["p95_ms"] for figures in arms.values()}
        return values

    def levels(self, result: Result) -> Mapping[str, float]:
        """Return nothing: the run has no levels besides those of its arm."""
        del result
        return {}

    def row(self, result: Result) -> Mapping[str, Any]:
        body = result[self.name]
        arm = next(iter(body["arms"].values()), None)
        if arm is None:
            return {"service": body["target"]}
        figures = {"p95": milliseconds(arm["p95_ms"]), "errors": percent(arm["error_share"])}
        return {"service": body["target"], **figures}


KIND = EndpointKind()
