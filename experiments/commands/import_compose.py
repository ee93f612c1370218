"""`sparecraft import compose`: make a design from the services of a Compose file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import InputError
from core.terminal import JsonOption, print_json, say
from experiments.commands.init import experiment_name

if TYPE_CHECKING:
    from experiments.importers.compose import Answer
    from experiments.importers.compose.service import Service


def compose(
    file: Annotated[Path, typer.Argument(help="The Compose file, or its folder.")],
    to: Annotated[Path, typer.Option("--to", help="Folder of the new design.")],
    speaks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SERVICE=PROTOCOL[:PORT]",
            help="Protocol and port of a service, if the file does not give them; may be repeated.",
        ),
    ] = None,
    profile: Annotated[
        list[str] | None, typer.Option(help="A Compose profile to include; may be repeated.")
    ] = None,
    env_file: Annotated[
        Path | None,
        typer.Option(help="File of variables, instead of .env beside the Compose file."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a design from a Compose file.

    It has a tier for each service, and a first workload. Each part of the file that has no effect
    in a fleet is printed on a line of its own.

    Example: sparecraft import compose compose.yaml --to my-shop
    """
    from experiments.importers.compose import import_compose

    told = _parse_speaks(speaks or ())
    asked = sys.stdin.isatty() and not as_json

    def ask(service: Service) -> Answer | None:
        if service.name in told or not asked:
            return told.get(service.name)
        return _ask(service)

    made = import_compose(
        file, to, experiment_name(to), ask, profiles=profile or (), env_file=env_file
    )
    unknown = sorted({*told} - {one.service.name for one in made.tiers})
    if as_json:
        print_json(made.to_json())
        return
    for tier in made.tiers:
        calls = f", calls {', '.join(made.called_by(tier))}" if tier.calls else ""
        arbiter = "an arbiter" if tier.arbiter else "no arbiter"
        say(f"{tier.name}: {tier.nodes} x {tier.protocol} at port {tier.port}, {arbiter}{calls}")
    for place, why in made.unhonoured:
        say(f"not as written: {place}: {why}")
    for name in unknown:
        say(f"--speaks {name}: no such service")
    say(f"{to}: README.md lists the tiers, and what of the file has no effect.")
    say(f"`sparecraft check {to}` reads it, `sparecraft run {to}` measures it.")


def _parse_speaks(speaks: list[str] | tuple[str, ...]) -> dict[str, Answer]:
    found = {}
    for text in speaks:
        name, _, said = text.partition("=")
        found[name] = _answer(said, f"--speaks {text}")
    return found


def _answer(said: str, place: str) -> Answer:
    from experiments.design.contracts import PROTOCOLS
    from experiments.importers.compose import Answer

    parts = re.fullmatch(r"([a-z]+)(?::([0-9]{1,5}))?", said)
    if parts is None or parts[1] not in PROTOCOLS or not 0 < int(parts[2] or 1) <= 65535:
        raise InputError(
            place,
            expected=f"PROTOCOL or PROTOCOL:PORT, of {', '.join(PROTOCOLS)}",
            got=repr(said),
            hint="For example: --speaks web=http:8080",
        )
    return Answer(parts[1], int(parts[2]) if parts[2] else None)


def _ask(service: Service) -> Answer | None:
    """Ask on the terminal if nothing shows the protocol of the service."""
    from experiments.importers.compose.tiers import is_recognised, ports_of

    if is_recognised(service):
        return None
    known = next(iter(ports_of(service)), None)
    shown = f"port {known}" if known else "no port is told of; nothing leaves it out"
    question = f"What does {service.name} speak ({shown})? PROTOCOL[:PORT]"
    said = typer.prompt(question, default="", show_default=False)
    return _answer(said, service.name) if said else None
