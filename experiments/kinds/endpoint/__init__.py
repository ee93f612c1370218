"""Load on a service that somebody else runs, at its URL. Read measure.py first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.design.target import Target
from experiments.kinds.compare import CompareKind
from experiments.report.text import milliseconds, percent

if TYPE_CHECKING:
    from rich.console import Console

    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.record.result import Findings
    from experiments.testbed.platforms import Platform
    from experiments.testbed.testbed import Testbed


class EndpointKind(CompareKind[Target]):
    """A comparison's blocks of load and figures, without a fleet: of what is asked from outside."""

    name = "endpoint"
    summary = "a service that somebody else runs, at its URL: load and latencies, nothing else"
    needs_fleet = False
    plans = False
    decides = False
    calibrates = False

    def load_s(self, design: Design, section: Target) -> float:
        """Seconds of load in all."""
        from experiments.design.schedule import load_length_s

        del section
        return load_length_s(design.experiment)

    def utilisation(self, design: Design, results: Path) -> Any:
        """Return nothing: the machines are not known."""
        del design, results

    def check_host(self, design: Design, section: Target, platform: Platform) -> None:
        """The service answers, with the certificate that its URL asks for."""
        from experiments.kinds.endpoint.measure import check_target

        del platform
        check_target(design, section)

    def measure(self, testbed: Testbed, section: Target) -> None:
        """Every block of the design, sent to the service."""
        from experiments.kinds.endpoint.measure import measure

        measure(testbed, section)

    def analyse(self, folder: Path) -> Findings:
        """Latencies, errors, operations and the SLO's verdict."""
        from experiments.kinds.endpoint.analysis import analyse

        return analyse(folder)

    def write_page(self, folder: Path) -> Path:
        """Verdict, figures of the whole and of each block, latency over time."""
        from experiments.kinds.endpoint.page import write_page

        return write_page(folder)

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """The same, in short."""
        from experiments.kinds.endpoint.page import print_result

        del result  # the folder has it
        print_result(page.parent, console, page)

    def compared_values(self, result: Result) -> Mapping[str, Any]:
        """Latencies of all requests and of each operation."""
        body = result[self.name]
        one: Mapping[str, Any] = next(iter(body["arms"].values()), {})
        names = ("requests", "error_share", "offered_per_s", "p50_ms", "p95_ms", "p99_ms")
        found = {"service": body["target"], **{name: one.get(name) for name in names}}
        if len(body["operations"]) > 1:
            for name, arms in body["operations"].items():
                found |= {f"{name} p95_ms": figures["p95_ms"] for figures in arms.values()}
        return found

    def levels(self, result: Result) -> Mapping[str, float]:
        """Return nothing: the run has no levels besides those of its arm."""
        del result
        return {}

    def row(self, result: Result) -> Mapping[str, Any]:
        """Return the service, its p95 and its errors."""
        body = result[self.name]
        one = next(iter(body["arms"].values()), None)
        if one is None:
            return {"service": body["target"]}
        took = {"p95": milliseconds(one["p95_ms"]), "errors": percent(one["error_share"])}
        return {"service": body["target"], **took}


KIND = EndpointKind()
