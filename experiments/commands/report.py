"""`sparecraft report`: a run's page anew from its files."""

from __future__ import annotations

from core.runfiles.folder import run_folder
from core.runfiles.result import read_result
from core.terminal import print_json
from experiments import kinds
from experiments.commands.options import JsonOption, RunArgument, out


def report(
    run: RunArgument,
    as_json: JsonOption = False,
) -> None:
    """Write report.html anew from a run's files, and print its summary.

    Example: sparecraft report mediawiki-noisy
    """
    run = run_folder(run)
    result = read_result(run)
    kind = kinds.find(result["kind"])
    page = kind.write_page(run)
    if as_json:
        print_json(result)
    else:
        kind.print_result(result, out, page)
