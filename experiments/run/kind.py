"""The contract of a kind of experiment: its section, its measurement, its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from core.config_file import Strict

if TYPE_CHECKING:
    from rich.console import Console

    from core.runfiles.result import Result
    from experiments.design import Design
    from experiments.design.disturbance import Disturbance
    from experiments.record.result import Findings
    from experiments.testbed.platforms import Platform
    from experiments.testbed.testbed import Testbed


class NoSection(Strict):
    """The section of a kind without one: a table without keys."""


SectionT = TypeVar("SectionT", bound=Strict)


class Kind(Generic[SectionT]):
    """One kind of experiment, which is a folder of kinds.

    `name` is that of the folder; `Section` is the model of the table `[NAME]` in experiment.toml. A
    list of kinds reads only `__init__.py`, so methods import what they need. `measures` names a
    class in a module of the folder; `analyses`, `draws` and `prints` name functions.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    measures: ClassVar[str]  # (testbed, section), whose method `measure` measures
    analyses: ClassVar[str] = "analysis.analyse"  # (folder) -> Findings
    draws: ClassVar[str] = "page.write_page"  # (folder) -> Path
    prints: ClassVar[str] = "page.print_result"  # (head and body in one, console, page)
    Section: type[SectionT] = NoSection  # type: ignore[assignment]  # of a kind without one
    needs_fleet: ClassVar[bool] = True
    needs_load: ClassVar[bool] = True  # designs have [load], [phases] and [slo]
    unguarded: ClassVar[str] = ""  # reason why a [guard] ends no run
    plans: ClassVar[bool] = False  # a fleet is planned from a run
    calibrates: ClassVar[bool] = False  # its load may be a utilisation
    varies: ClassVar[bool] = False  # its load may have stages or a trace
    decides: ClassVar[bool] = False  # a run ends once `[design] decide` is decided
    is_open_ended: ClassVar[bool] = False  # the duration is not known before
    replaces_machines: ClassVar[bool] = False  # designs have a [failover]

    def check(self, design: Design, section: SectionT) -> None:
        """Raise InputError if design and section do not fit; by default calls the section's."""
        if (section_check := getattr(section, "check", None)) is not None:
            section_check(design)

    def check_host(self, design: Design, section: SectionT, platform: Platform) -> None:
        """Raise EnvironmentMissing if this host is too small; called before anything is made."""

    def disturbs(self, design: Design, section: SectionT) -> Sequence[Disturbance]:
        """Return the disturbances that the kind adds, for `sparecraft check`."""
        del design, section
        return ()

    def adapted(self, design: Design, section: SectionT) -> Design:
        """Return the design as the kind runs it."""
        del section
        return design

    def load_s(self, design: Design, section: SectionT) -> float | None:
        """Return the seconds of load in all; None if they are not known before."""
        from experiments.design.schedule import load_length_s

        del section
        if self.is_open_ended:
            return None
        return load_length_s(design.experiment) if self.needs_fleet else 0.0

    def utilisation(self, design: Design, results: Path) -> Mapping[str, Any] | None:
        """Return the utilisation of each arm's tiers, predicted from earlier runs in `results`.

        Keys: asked, run, rate_per_s, at_most, arms. None for kinds without a prediction.
        """
        del design, results
        return None

    def measure(self, testbed: Testbed, section: SectionT) -> None:
        """Measure everything, and register writers by `testbed.keep`; they are called also after an
        interrupted run."""
        self._load_function(self.measures)(testbed, section).measure()

    def analyse(self, folder: Path) -> Findings:
        """Return the findings of a run's files, of which manifest.json is the runner's."""
        findings: Findings = self._load_function(self.analyses)(folder)
        return findings

    def conclude(self, folder: Path) -> Result:
        """Write result.json from a run's files, and return it."""
        from core.runfiles.manifest import manifest_if_any
        from core.runfiles.result import FILE
        from experiments.record.records import write_json
        from experiments.record.result import result_of

        result = result_of(self.name, manifest_if_any(folder), self.analyse(folder))
        write_json(folder / FILE, result)
        return result

    def write_page(self, folder: Path) -> Path:
        """Write report.html from the folder's files, with result.json, and return its path."""
        page: Path = self._load_function(self.draws)(folder)
        return page

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """Print the result; the last line is the page's path."""
        from experiments.record.result import flat

        self._load_function(self.prints)(flat(result), console, page)

    def _load_function(self, function: str) -> Any:
        """Return a function of the kind's folder, given as MODULE.NAME."""
        module, _, name = function.rpartition(".")
        return getattr(import_module(f"{type(self).__module__}.{module}"), name)

    def compared_values(self, result: Result) -> Mapping[str, Any]:
        """Return the columns that `sparecraft compare` shows beside another run's."""
        return self.row(result)

    def levels(self, result: Result) -> Mapping[str, float]:
        """Return figures of the whole run that nights watch, beside those of its arms.

        A name is FIGURE or FIGURE/OF, with the unit in FIGURE.
        """
        del result
        return {}

    def row(self, result: Result) -> Mapping[str, Any]:
        """Return the columns of `sparecraft list` for a run, beside its head."""
        del result
        return {}
