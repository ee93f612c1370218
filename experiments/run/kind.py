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
    """The section of a kind that has none: a table without keys."""


SectionT = TypeVar("SectionT", bound=Strict)


class Kind(Generic[SectionT]):
    """One folder of kinds. Its `__init__.py` is read to list them, so what a method needs is
    imported in the method; `measures` names a class in a module of the folder, `analyses` and
    the next two a function.

    name: the folder's; Section: the model of the table `[NAME]` in experiment.toml.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    measures: ClassVar[str]  # (testbed, section), whose method `measure` measures
    analyses: ClassVar[str] = "analysis.analyse"  # (folder) -> Findings
    draws: ClassVar[str] = "page.write_page"  # (folder) -> Path
    prints: ClassVar[str] = "page.print_result"  # (head and body in one, console, page)
    Section: type[SectionT] = NoSection  # type: ignore[assignment]  # where a kind names none
    needs_fleet: ClassVar[bool] = True
    needs_load: ClassVar[bool] = True  # whether a design of it has [load], [phases] and [slo]
    unguarded: ClassVar[str] = ""  # why a [guard] ends no run of it
    plans: ClassVar[bool] = False  # whether a fleet is planned from a run of it
    calibrates: ClassVar[bool] = False  # whether its load may be a utilisation
    varies: ClassVar[bool] = False  # whether its load may have stages or a trace
    decides: ClassVar[bool] = False  # whether it ends once `[design] decide` is decided
    is_open_ended: ClassVar[bool] = False  # whether only the run tells how long it takes
    replaces_machines: ClassVar[bool] = False  # whether a design of it has a [failover]

    def check(self, design: Design, section: SectionT) -> None:
        """Raises InputError where design and section do not fit, as the section's own `check`."""
        if (own := getattr(section, "check", None)) is not None:
            own(design)

    def check_host(self, design: Design, section: SectionT, platform: Platform) -> None:
        """Raises EnvironmentMissing where this host cannot carry it; before anything is made."""

    def disturbs(self, design: Design, section: SectionT) -> Sequence[Disturbance]:
        """Disturbances that the kind adds, as `sparecraft check` says them."""
        del design, section
        return ()

    def adapted(self, design: Design, section: SectionT) -> Design:
        """The design as it is carried out."""
        del section
        return design

    def load_s(self, design: Design, section: SectionT) -> float | None:
        """Seconds of load in all; None where that is found out while it measures."""
        from experiments.design.schedule import load_length_s

        del section
        if self.is_open_ended:
            return None
        return load_length_s(design.experiment) if self.needs_fleet else 0.0

    def utilisation(self, design: Design, results: Path) -> Mapping[str, Any] | None:
        """Utilisation that each arm's tiers will have, by earlier runs in `results`: asked, run,
        rate_per_s, at_most, arms; None in kinds that cannot say."""
        del design, results
        return None

    def measure(self, testbed: Testbed, section: SectionT) -> None:
        """Everything that is measured; `testbed.keep` makes sure that it is written, also when the
        run is cut short."""
        self._own(self.measures)(testbed, section).measure()

    def analyse(self, folder: Path) -> Findings:
        """The findings of a run's files; the runner's manifest.json is one of them."""
        found: Findings = self._own(self.analyses)(folder)
        return found

    def write_page(self, folder: Path) -> Path:
        """Write report.html from the folder's files, result.json too, and return its path."""
        page: Path = self._own(self.draws)(folder)
        return page

    def print_result(self, result: Result, console: Console, page: Path) -> None:
        """The result on a terminal; the last line is the page's path."""
        from experiments.record.result import flat

        self._own(self.prints)(flat(result), console, page)

    def _own(self, function: str) -> Any:
        """A function of the kind's folder, as MODULE.NAME."""
        module, _, name = function.rpartition(".")
        return getattr(import_module(f"{type(self).__module__}.{module}"), name)

    def compared_values(self, result: Result) -> Mapping[str, Any]:
        """The columns that `sparecraft compare` puts beside another run's."""
        return self.row(result)

    def levels(self, result: Result) -> Mapping[str, float]:
        """Figures of the whole run that nights watch, beside those of its arms: FIGURE or
        FIGURE/OF, with the unit in the figure's name."""
        del result
        return {}

    def row(self, result: Result) -> Mapping[str, Any]:
        """The few words of `sparecraft list` on a run beside its head."""
        del result
        return {}
