"""`sparecraft report`: write a run's page again from its files, or print the newest page's path."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.errors import InputError
from core.runfiles.folder import run_folder
from core.runfiles.result import read_result
from core.terminal import JsonOption, out, print_json, say
from experiments import kinds
from experiments.commands.options import RESULTS, ResultsOption, run_folders
from experiments.design import is_path
from experiments.record.records import was_cut_short

_PAGE = "report.html"


def report(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A run: results/EXPERIMENT/RUN; or an experiment's name, for its latest run.",
            autocompletion=run_folders,
        ),
    ] = None,
    path: Annotated[
        bool,
        typer.Option(
            "--path",
            help="Write nothing: print path and URL of the newest report, of RUN if it is given.",
        ),
    ] = False,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Write report.html again from a run's files, and print its summary.

    With --path and an experiment's name: the report of its newest run that reached its end.

    Example: sparecraft report mediawiki-noisy
    """
    if path:
        _print_path(newest(run, results).resolve(), as_json)
        return
    if run is None:
        hint = "`sparecraft list` shows the runs; --path prints the newest report's path."
        raise InputError("RUN", expected="a run", got="none", hint=hint)
    folder = run_folder(Path(run), results)
    result = read_result(folder)
    kind = kinds.find(result["kind"])
    page = kind.write_page(folder)
    if as_json:
        print_json(result)
    else:
        kind.print_result(result, out, page)


def _print_path(page: Path, as_json: bool) -> None:
    if as_json:
        print_json({"path": str(page), "url": page.as_uri()})
        return
    for line in (str(page), page.as_uri()):
        say(line)


def newest(run: str | None, results: Path) -> Path:
    """Return the newest report, that of `run` if it is given. Raises InputError without one."""
    if run is not None and (Path(run) / _PAGE).is_file():
        return Path(run) / _PAGE
    if run is None:
        roots = list(results.glob("*"))
    else:
        roots = [Path(run) if is_path(run) else results / run]
    patterns = (f"*/{_PAGE}", f"*/*/{_PAGE}")
    pages = {
        page.resolve() for root in roots for pattern in patterns for page in root.glob(pattern)
    }
    if not pages:
        raise InputError(
            run or str(results),
            expected=f"a run with a {_PAGE}",
            got="none",
            hint="`sparecraft list` shows the runs; `sparecraft report RUN` writes the page again.",
        )

    def rank(page: Path) -> tuple[bool, str]:
        """Return a sort key: for one experiment, runs that reached their end; then the run's name,
        which is its time.
        """
        return run is not None and not was_cut_short(page.parent), page.parent.name

    return max(pages, key=rank)
