"""The `sparecraft` command. Exit codes: 0 done, 1 an SLO or verdict failed, 2 wrong usage or input,
3 the environment (Docker, Terraform, a port, disk space) is not there.

A command's module is imported when the command is called: `sparecraft --help` needs none of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup


class Command(NamedTuple):
    """Where a command is, and the first sentence of its help."""

    module: str
    help: str


_HERE, _PLANNER = "experiments.commands", "optimizer.commands"
COMMANDS: Mapping[str, Command] = {
    "init": Command(
        f"{_HERE}.init",
        "Make a design folder of a small service, commented, to put your own service into.",
    ),
    "check": Command(
        f"{_HERE}.check",
        "Check a design without Docker: its files, roles, scripts and workload, and say what it "
        "is.",
    ),
    "run": Command(
        f"{_HERE}.run",
        "Provision the design's fleet, disturb it, measure it, plan from it, report, remove it.",
    ),
    "nightly": Command(
        f"{_HERE}.nightly",
        "Run a suite of designs for one night, keep what was measured, and make a site of all "
        "nights.",
    ),
    "tune": Command(
        f"{_HERE}.tune",
        "Find the replication factors on the live fleet (sPARE Alg. 1), with a test at each step.",
    ),
    "report": Command(
        f"{_HERE}.report", "Write report.html anew from a run's files, and print its summary."
    ),
    "adopt": Command(
        f"{_HERE}.adopt",
        "Make a design of a run's plan, to measure whether the plan keeps what it predicts.",
    ),
    "up": Command(
        f"{_HERE}.up", "Provision a design's fleet and wait until every machine is ready."
    ),
    "down": Command(
        f"{_HERE}.down",
        "Remove a fleet and every trace of it, also one that a killed run left behind.",
    ),
    "list": Command(
        f"{_HERE}.listing",
        "The designs, the fleets that are up, and the runs in the results folder.",
    ),
    "reap": Command(
        f"{_HERE}.reap",
        "What outlived its time to live on EC2, in one region; with --remove it goes.",
    ),
    "availability": Command(
        f"{_PLANNER}.availability",
        "Expected share of a year with enough nodes up (PCRAFT), from all up, with its error "
        "bound.",
    ),
    "integrity": Command(
        f"{_PLANNER}.integrity",
        "Share of a month that a node is correct, corrupt or down (PCRAFT Fig. 2).",
    ),
    "plan": Command(
        f"{_PLANNER}.plan",
        "The cheapest fleet that meets the SLOs, from what a run measured, a plan.toml, or both.",
    ),
    "prices": Command(f"{_PLANNER}.prices", "What machines cost, since when, and says who."),
    "reproduce": Command(
        f"{_PLANNER}.reproduce", "The papers' tables and curves, computed again beside theirs."
    ),
    "simulate": Command(
        f"{_PLANNER}.simulate",
        "Simulate tiers of servers behind arbiters: any policy and r, neighbours, crashes.",
    ),
}


class _Commands(TyperGroup):
    """The commands of `COMMANDS`, each imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the table's order."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command itself; None for an unknown name."""
        del ctx
        return command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The table, for --help."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.help) for name, one in COMMANDS.items()])


def command(name: str) -> Any:
    """A command of the table, imported now."""
    alone = typer.Typer(rich_markup_mode=None)
    alone.callback()(lambda: None)  # a group even of one command
    import_module(COMMANDS[name].module).add_to(alone)
    return typer.main.get_group(alone).commands[name]


# Without Rich's markup, help is what was written: it takes [rates] for a style and drops it.
app = typer.Typer(
    name="sparecraft",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Finds, by measurement, the cheapest fleet that stays available and keeps its tail "
    "latency low when neighbours are noisy and hardware limps, hangs and dies.",
)


def _version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        typer.echo(f"sparecraft {metadata.version('sparecraft')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version
    from experiments import kinds

    kinds.search(os.environ.get("SPARECRAFT_KINDS", ""))


def main() -> None:
    """Entry point: every error of ours becomes one message and an exit code."""
    from experiments.errors import SparecraftError

    try:
        app()
    except SparecraftError as error:
        from rich.console import Console
        from rich.markup import escape

        said = f"[bold red]error[/bold red] {escape(str(error))}"
        Console(stderr=True).print(said, highlight=False)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
