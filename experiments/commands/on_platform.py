"""`--platform`, and the options that platforms declare for a command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from core.errors import InputError
from experiments.paths import require_checkout
from experiments.testbed.platforms import DEFAULT, Option, PlatformEntry, entries, entry

_MAKES_FLEETS = ("run", "up", "tune")


@dataclass(frozen=True)
class Chosen:
    """The chosen platform, and the given values of its options."""

    entry: PlatformEntry
    options: Mapping[str, Any]

    @property
    def flag(self) -> str:
        """The words to add to a command line for the same platform."""
        return "" if self.entry.name == DEFAULT else f" --platform {self.entry.name}"


def on_platform(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with options in place of its parameter `chosen`: --platform, and those
    that the platforms declare for a command of its name."""
    name = command.__name__.strip("_")
    holders: dict[str, list[str]] = {}
    declared: dict[str, Option] = {}
    for platform in entries():
        for option in platform.options:
            if name in option.commands:
                declared.setdefault(option.name, option)
                holders.setdefault(option.name, []).append(platform.name)

    @functools.wraps(command)
    def wrapper(platform: str, **arguments: Any) -> None:
        values = {option: arguments.pop(option) for option in declared}
        platform_entry = entry(platform)
        for option, value in values.items():
            if value not in (None, False, []) and platform_entry.name not in holders[option]:
                raise _foreign_option(option, holders[option], platform_entry.name)
        if name in _MAKES_FLEETS and not arguments.get("dry_run"):
            require_checkout(f"sparecraft {name}")
        command(chosen=Chosen(platform_entry, values), **arguments)

    signature = inspect.signature(command, eval_str=True)
    command_parameters = [
        parameter for parameter in signature.parameters.values() if parameter.name != "chosen"
    ]
    platform_options = [_parameter(option, holders[option.name]) for option in declared.values()]
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in command_parameters
    ]
    wrapper.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*parameters, _platform(), *platform_options]
    )
    wrapper.__annotations__ = {}
    return wrapper


def _platform() -> inspect.Parameter:
    known = entries()
    choices = f"[{'|'.join(platform.name for platform in known)}]"
    summaries = "; ".join(f"{platform.name}: {platform.summary}" for platform in known)
    info = typer.Option("--platform", metavar=choices, help=f"{summaries}.", show_default=True)
    return inspect.Parameter(
        "platform", inspect.Parameter.KEYWORD_ONLY, default=DEFAULT, annotation=Annotated[str, info]
    )


def _parameter(option: Option, platforms: list[str]) -> inspect.Parameter:
    info = typer.Option(
        _flag(option.name),
        help=f"{' and '.join(platforms)}: {option.help}",
        metavar=option.metavar,
        min=option.minimum,
        max=option.maximum,
        show_default=False,
    )
    yes_or_no = option.type is bool
    annotation = option.type if yes_or_no else option.type | None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if yes_or_no else None,
        annotation=Annotated[annotation, info],
    )


def _foreign_option(option: str, platforms: list[str], platform: str) -> InputError:
    return InputError(
        _flag(option),
        expected=f"--platform {' or '.join(platforms)} with it",
        got=f"--platform {platform}",
        hint="Take one of them out.",
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
