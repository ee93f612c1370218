"""The `sparecraft` command. Exit codes: 0 done, 1 an SLO or verdict failed, 2 wrong usage or input,
3 a part of the environment (Docker, Terraform, a port, disk space) is missing.

A command's module is imported when the command is called: `sparecraft --help` needs none of them.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from experiments.paths import ROOT

if TYPE_CHECKING:
    from core.errors import SparecraftError

_WRONG_USAGE: Any = typer.BadParameter.__base__  # typer.UsageError is not exported
_HERE, _PLANNER = "experiments.commands", "optimizer.commands"
# The function of each command, by module. Its docstring is the command's help.
PANELS: Mapping[str, Mapping[str, str]] = {
    "Experiment": {
        "init": f"{_HERE}.init:init",
        "import": f"{_HERE}.import_:group",
        "check": f"{_HERE}.check:check",
        "run": f"{_HERE}.run:run",
        "halt": f"{_HERE}.halt:halt",
        "tune": f"{_HERE}.tune:tune",
        "nightly": f"{_HERE}.nightly:nightly",
        "list": f"{_HERE}.list:list_",
        "report": f"{_HERE}.report:report",
        "watch": f"{_HERE}.watch:watch",
        "replay": f"{_HERE}.replay:replay",
        "compare": f"{_HERE}.compare:compare",
        "glossary": f"{_HERE}.glossary:glossary",
    },
    "Plan": {
        "plan": f"{_PLANNER}.plan:plan",
        "adopt": f"{_HERE}.adopt:adopt",
        "prices": f"{_PLANNER}.prices:group",
    },
    "Models": {
        "availability": f"{_PLANNER}.availability:availability",
        "integrity": f"{_PLANNER}.integrity:integrity",
        "limplock": f"{_PLANNER}.limplock:limplock",
        "simulate": f"{_PLANNER}.simulate:simulate",
        "reproduce": f"{_PLANNER}.reproduce:group",
    },
    "Fleet": {
        "doctor": f"{_HERE}.doctor:doctor",
        "up": f"{_HERE}.up:up",
        "down": f"{_HERE}.down:down",
        "prune": f"{_HERE}.prune:prune",
        "reap": f"{_HERE}.reap:reap",
    },
}
COMMANDS = {name: target for panel in PANELS.values() for name, target in panel.items()}


class _Commands(TyperGroup):
    """The commands of `COMMANDS`. Each is imported when it is called."""

    _completes = False

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, in the table's order."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command itself; None for an unknown name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        if self._completes:  # its name and its help are enough
            return TyperCommand(cmd_name, help=first_paragraph(cmd_name))
        return command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command; an error about an unknown name suggests similar ones."""
        suggestions = get_close_matches(args[0], COMMANDS) if args[0] not in COMMANDS else []
        if suggestions:
            ctx.fail(f"No such command '{args[0]}'. Did you mean {' or '.join(suggestions)}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the names of commands, without an import of any."""
        self._completes = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._completes = False

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a table for each panel, for --help."""
        del ctx
        width = max(len(name) for name in COMMANDS)
        for title, panel in PANELS.items():
            with formatter.section(title):
                rows = [(name.ljust(width), first_paragraph(name)) for name in panel]
                formatter.write_dl(rows)


def command(name: str) -> Any:
    """Return a command of the table, imported now."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback()(lambda: None)  # a group even of one command
    target = resolve_name(COMMANDS[name])
    if isinstance(target, typer.Typer):
        group.add_typer(target, name=name)
    elif "chosen" in target.__annotations__:  # it goes out on a platform
        from experiments.commands.on_platform import on_platform

        group.command(name)(on_platform(target))
    else:
        group.command(name)(target)
    click_command: Any = typer.main.get_group(group).commands[name]
    from experiments.commands.glossary import glossary_line

    helps = [element.help or "" for element in (click_command, *click_command.params)]
    click_command.epilog = glossary_line("\n".join(helps))
    return click_command


def first_paragraph(name: str) -> str:
    """Return the help text of a command from its source, because an import takes seconds."""
    module = COMMANDS[name].partition(":")[0]
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    function = next(node for node in functions if node.name.strip("_") == name)
    docstring = ast.get_docstring(function)
    return " ".join(str(docstring).partition("\n\n")[0].split())


# Without Rich's markup, help is what was written: it takes [rates] for a style and drops it.
app = typer.Typer(
    name="sparecraft",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Find the cheapest fleet that stays available and keeps its tail latency low, "
    "by measurements beside noisy neighbours and under hardware faults.",
    epilog="`sparecraft glossary WORD` explains words such as arm, r, NodT, TAD and PCRAFT.",
)


def _version(show: bool) -> None:
    if show:
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
    """Run the command line: every error of ours becomes one message and an exit code. With --json
    the message is JSON on the standard output."""
    from core.errors import SparecraftError

    try:
        if "--json" in sys.argv:
            sys.exit(_run_for_program())
        app()
    except SparecraftError as error:
        _fail(error)
    except OSError as error:
        if error.filename is None:  # no path that was given: a defect of ours
            raise
        _fail(_path_error(error))


def _path_error(error: OSError) -> SparecraftError:
    """Return the system's error about a path as an error of ours."""
    from core.errors import EnvironmentMissing, InputError

    wrong = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)
    kind = InputError if isinstance(error, wrong) else EnvironmentMissing
    return kind(
        str(error.filename),
        expected="a path that can be used",
        got=str(error.strerror),
        hint="Check that it exists, and its permissions, or give another.",
    )


def _fail(error: SparecraftError) -> NoReturn:
    if "--json" in sys.argv:
        _print_error(error.to_json(), error.exit_code)
    else:
        from rich.console import Console
        from rich.markup import escape

        message = f"[bold red]error[/bold red] {escape(str(error))}"
        Console(stderr=True).print(message, highlight=False)
    sys.exit(error.exit_code)


def _run_for_program() -> int:
    """Run the command and return its exit code; print wrong usage as JSON."""
    try:
        code = app(standalone_mode=False, prog_name="sparecraft")
    except _WRONG_USAGE as error:
        _print_error(_usage_error(error).to_json(), 2)
        return 2
    except typer.Abort:
        return 1
    return code if isinstance(code, int) else 0


def _usage_error(error: Any) -> SparecraftError:
    """Return wrong usage as an error of ours. Its place is the command with the option."""
    from core.errors import InputError

    place = [error.ctx.command_path] if error.ctx is not None else ["sparecraft"]
    if (option := getattr(error, "param", None)) is not None:
        place.append(option.opts[0])
    usage = error.ctx.get_usage().strip() if error.ctx is not None else "a command"
    got = error.format_message()
    return InputError(" ".join(place), expected=usage, got=got, hint="See --help.")


def _print_error(error: dict[str, object], exit_code: int) -> None:
    typer.echo(json.dumps({"error": {**error, "exit_code": exit_code}}, indent=2))


if __name__ == "__main__":
    main()
