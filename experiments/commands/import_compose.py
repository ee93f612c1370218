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

    answers = _parse_speaks(speaks or ())
    interactive = sys.stdin.isatty() and not as_json

    def ask(service: Service) -> Answer | None:
        if service.name in answers or not interactive:
            return answers.get(service.name)
        return _ask(service)

    design = import_compose(
        file, to, experiment_name(to), ask, profiles=profile or (), env_file=env_file
    )
    unknown = sorted({*answers} - {tier.service.name for tier in design.tiers})
    if as_json:
        print_json(design.to_json())
        return
    for tier in design.tiers:
        calls = f", calls {', '.join(design.callees(tier))}" if tier.calls else ""
        arbiter = "an arbiter" if tier.arbiter else "no arbiter"
        say(f"{tier.name}: {tier.nodes} x {tier.protocol} at port {tier.port}, {arbiter}{calls}")
    for place, reason in design.unhonoured:
        say(f"not as written: {place}: {reason}")
    for name in unknown:
        say(f"--speaks {name}: no such service")
    say(f"{to}: README.md lists the tiers, and what of the file has no effect.")
    say(f"`sparecraft check {to}` reads it, `sparecraft run {to}` measures it.")


def _parse_speaks(speaks: list[str] | tuple[str, ...]) -> dict[str, Answer]:
    answers = {}
    for text in speaks:
        name, _, protocol = text.partition("=")
        answers[name] = _parse_answer(protocol, f"--speaks {text}")
    return answers


def _parse_answer(text: str, place: str) -> Answer:
    from experiments.design.contracts import PROTOCOLS
    from experiments.importers.compose import Answer

    parts = re.fullmatch(r"([a-z]+)(?::([0-9]{1,5}))?", text)
    if parts is None or parts[1] not in PROTOCOLS or not 0 < int(parts[2] or 1) <= 65535:
        raise InputError(
            place,
            expected=f"PROTOCOL or PROTOCOL:PORT, of {', '.join(PROTOCOLS)}",
            got=repr(text),
            hint="For example: --speaks web=http:8080",
        )
    return Answer(parts[1], int(parts[2]) if parts[2] else None)


def _ask(service: Service) -> Answer | None:
    """Ask on the terminal if nothing shows the protocol of the service."""
    from experiments.importers.compose.tiers import is_recognised, ports_of

    if is_recognised(service):
        return None
    port = next(iter(ports_of(service)), None)
    port_text = f"port {port}" if port else "no port is told of; nothing leaves it out"
    question = f"What does {service.name} speak ({port_text})? PROTOCOL[:PORT]"
    reply = typer.prompt(question, default="", show_default=False)
    return _parse_answer(reply, service.name) if reply else None
