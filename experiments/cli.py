"""The `sparecraft` command. Exit codes: 0 done, 1 an SLO or verdict failed, 2 wrong usage or input,
3 the environment (Docker, Terraform, a port, disk space) is not there.

A command's module is imported when the command is called: `sparecraft --help` needs none of them.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from experiments.paths import ROOT

_HERE, _PLANNER = "experiments.commands", "optimizer.commands"
# Where each is; its help is the docstring of the function that is called like it.
COMMANDS: Mapping[str, str] = {
    "init": f"{_HERE}.init:init",
    "check": f"{_HERE}.check:check",
    "run": f"{_HERE}.run:run",
    "nightly": f"{_HERE}.nightly:nightly",
    "tune": f"{_HERE}.tune:tune",
    "report": f"{_HERE}.report:report",
    "adopt": f"{_HERE}.adopt:adopt",
    "up": f"{_HERE}.up:up",
    "down": f"{_HERE}.down:down",
    "halt": f"{_HERE}.halt:halt",
    "list": f"{_HERE}.listing:list_",
    "reap": f"{_HERE}.reap:reap",
    "availability": f"{_PLANNER}.availability:availability",
    "integrity": f"{_PLANNER}.integrity:integrity",
    "plan": f"{_PLANNER}.plan:plan",
    "prices": f"{_PLANNER}.prices:group",
    "reproduce": f"{_PLANNER}.reproduce:group",
    "simulate": f"{_PLANNER}.simulate:simulate",
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
            formatter.write_dl([(name, first_paragraph(name)) for name in COMMANDS])


def command(name: str) -> Any:
    """A command of the table, imported now."""
    alone = typer.Typer(rich_markup_mode=None)
    alone.callback()(lambda: None)  # a group even of one command
    found = resolve_name(COMMANDS[name])
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    elif "chosen" in found.__annotations__:  # it goes out on a platform
        from experiments.commands.on_platform import on_platform

        alone.command(name)(on_platform(found))
    else:
        alone.command(name)(found)
    return typer.main.get_group(alone).commands[name]


def first_paragraph(name: str) -> str:
    """What --help says of a command, as its source has it: to import all of them takes seconds."""
    module = COMMANDS[name].partition(":")[0]
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    functions = [one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)]
    said = next(ast.get_docstring(one) for one in functions if one.name.strip("_") == name)
    return " ".join(str(said).partition("\n\n")[0].split())


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
