"""`sparecraft open`: where the newest report is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.errors import InputError
from core.terminal import print_json
from experiments.commands.options import RESULTS, JsonOption, ResultsOption, out, run_folders
from experiments.design import is_path
from experiments.record.records import was_cut_short

_PAGE = "report.html"


def open_(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|EXPERIMENT",
            help="A run's folder, or an experiment's name; without one, the newest report.",
            autocompletion=run_folders,
        ),
    ] = None,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Print the path of the newest report, and its URL for a browser: of an experiment, of its
    newest run that reached its end, if any did.

    Example: sparecraft open mediawiki-noisy
    """
    page = newest(what, results).resolve()
    if as_json:
        print_json({"path": str(page), "url": page.as_uri()})
        return
    for line in (str(page), page.as_uri()):
        out.print(line, soft_wrap=True, markup=False, highlight=False)


def newest(what: str | None, results: Path) -> Path:
    """The report that is meant. Raises InputError where there is none."""
    if what is not None and (Path(what) / _PAGE).is_file():
        return Path(what) / _PAGE
    if what is None:
        of = list(results.glob("*"))
    else:
        of = [Path(what) if is_path(what) else results / what]
    patterns = (f"*/{_PAGE}", f"*/*/{_PAGE}")
    found = {page.resolve() for one in of for pattern in patterns for page in one.glob(pattern)}
    if not found:
        raise InputError(
            what or str(results),
            expected=f"a run with a {_PAGE}",
            got="none",
            hint="`sparecraft list` shows the runs; `sparecraft report RUN` writes the page anew.",
        )

    def rank(page: Path) -> tuple[bool, str]:
        """Of one experiment, runs that reached their end first; a run's name is its time."""
        return what is not None and not was_cut_short(page.parent), page.parent.name

    return max(found, key=rank)
