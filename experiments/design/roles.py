"""Roles: the software of a tier's machines, from `ROLE/role.json` of infra/roles or of a design.

Terraform and `ci/bundle` read the same files. A `{word}` in a value is replaced by Terraform alone
(infra/stacks/shared/fleet.tf); here it is only checked that the word is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from core.config_file import Problem, Strict, check, raise_all, read_json, refusal
from core.errors import InputError
from experiments.design.contracts import PROTOCOLS, OneOf
from experiments.paths import ROOT

ROLES = ROOT / "infra" / "roles"
ROLE_NAME = r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$"
SCRIPTS = ("start.sh", "ready.sh")

OF_A_MACHINE = ("name", "tier", "address", "index", "nodes", "first", "peers")
OF_A_CALL = ("host", "port", "hosts", "user", "password", "database")

Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Scalar = str | int | float | bool
Protocol = Annotated[str, OneOf(tuple(PROTOCOLS))]


def _with_words(*known: str) -> AfterValidator:
    def check_words(text: str) -> str:
        for word in re.findall(r"\{([a-z_]+)\}", text):
            if word not in known:
                shown = ", ".join(f"{{{one}}}" for one in known)
                raise refusal(f"one of {shown} in braces", got=f"{{{word}}}")
        if "\n" in text:
            raise refusal("one line", got=repr(text))
        return text

    return AfterValidator(check_words)


Environment = dict[Variable, Annotated[str, _with_words(*OF_A_MACHINE)]]
# A reference as registries have it: name with a host, a tag or a digest; it goes into a Dockerfile.
_IMAGE = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$"
# Programs of stock images take names that no shell does: discovery.type.
AnyVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]


class Call(Strict):
    """A tier that machines of this role ask: any of these roles (none named: any at all)."""

    roles: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """What it may ask; none named: any."""
    required: bool = False
    """A tier of this role must have such a tier to call."""
    environment: dict[Variable, Annotated[str, _with_words(*OF_A_MACHINE, *OF_A_CALL)]] = Field(
        default_factory=dict
    )
    """What its scripts are told of it."""


class Session(Strict):
    """A public account for callers, and for the arbiter's own sessions."""

    user: str
    """Its name."""
    password: str
    """Public: it can only read."""
    database: str
    """What it reads."""


class Place(Strict):
    """The settings of a machine by its place in the tier."""

    environment: Environment = Field(default_factory=dict)
    """Beside what every machine of the tier has."""


class Places(Strict):
    """The tier's first machine, and all others."""

    first: Place = Place()
    """The first machine: leader, primary."""
    others: Place = Place()
    """All others: followers, replicas, standbys."""


class Setting(Strict):
    """A value of the environment that an arm may name: one of `values`, or within the bounds."""

    summary: str
    """What it does."""
    values: Annotated[tuple[Scalar, ...], Field(strict=False)] | None = None
    """What it may be."""
    minimum: float | None = None
    """The least it may be."""
    maximum: float | None = None
    """The most it may be."""
    default: Scalar
    """What it is unless an arm says so."""

    @model_validator(mode="after")
    def _takes_its_default(self) -> Setting:
        bounded = self.minimum is not None and self.maximum is not None
        if bounded == (self.values is not None):
            raise refusal("either values, or minimum and maximum", got="both, or neither")
        if not self.takes(self.default):
            raise refusal(self.expected, got=repr(self.default), key="default")
        return self

    @property
    def expected(self) -> str:
        """The accepted values, for an error."""
        if self.values is not None:
            return f"one of {', '.join(map(repr, self.values))}"
        return f"a number from {self.minimum:g} to {self.maximum:g}"

    def takes(self, value: object) -> bool:
        """Tell whether an arm may set this value."""
        if self.values is not None:
            return any(value == one and type(value) is type(one) for one in self.values)
        if self.minimum is None or self.maximum is None or isinstance(value, bool):
            return False
        return isinstance(value, int | float) and self.minimum <= value <= self.maximum


class Ready(Strict):
    """The time a machine of the role may take until its ready.sh says yes."""

    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    """Longest start [s]."""


class Process(Strict):
    """The service's first process, where it is not to be the image's own."""

    entrypoint: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """Its words, in place of the image's ENTRYPOINT and CMD."""
    command: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """The words after the entry point, in place of the image's CMD."""
    user: (
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+)?$")] | None
    ) = None
    """Its user, in place of the image's USER: a name or number, with a group after a colon."""
    workdir: Annotated[str, Field(pattern="^/")] | None = None
    """Its working folder, in place of the image's WORKDIR."""
    healthcheck: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """The words of a program that ends with 0 when it serves, in place of the image's HEALTHCHECK;
    none of them: a connection to the port is enough."""
    restart: bool = False
    """Start it again whenever it ends by itself."""


class Context(Strict):
    """The build of the stock image, from the folder `context` of the role."""

    dockerfile: Annotated[str, Field(pattern=r"^[^/]")] = "Dockerfile"
    """Its Dockerfile, from that folder."""
    target: Annotated[str, Field(min_length=1)] | None = None
    """The stage of it that is wanted; else the last."""
    arguments: dict[Variable, str] = Field(default_factory=dict)
    """Values of its ARG lines."""


class Fit(Strict):
    """The role's facts for the planner's fit: what holds a token of its arbiter."""

    token_hold: Literal["connection", "request"] = "request"
    """What holds a token of its arbiter: a connection, or a request."""


class Role(Strict):
    """The whole of a role.json."""

    schema_: Annotated[str | None, Field(alias="$schema")] = None
    summary: Annotated[str, Field(min_length=1)]
    """What it is, in a line."""
    tier: bool = True
    """Whether a tier may have it; false: a machine of the fleet's own."""
    protocol: Protocol
    """What it speaks, and so its arbiter."""
    port: Port
    """Where it listens."""
    state: Literal["none", "copied", "own"] | None = None
    """State that a machine keeps: none (a spare serves as any other does), copied (a machine that
    joins gets it from the others, and serves), own (it is lost with the machine, or no other takes
    its place: a cold spare is no availability)."""
    arbiter: bool = True
    """Whether a tier of it may have an arbiter."""
    image_of: str | None = None
    """The role whose folder and image it has, under another name."""
    image: Annotated[str, Field(pattern=_IMAGE)] | None = None
    """A stock image that it stands on, in place of a Dockerfile."""
    context: Context | None = None
    """The same, where the stock image is built first."""
    process: Process | None = None
    """The program of a stock image without a start.sh, if not the image's own."""
    build: dict[str, str] = Field(default_factory=dict)
    """What its image's build takes from elsewhere: place in the context (with a / at its end: a
    folder, of all that the pattern finds) to path in the project."""
    calls: Annotated[tuple[Call, ...], Field(strict=False)] = ()
    """The tiers that it asks."""
    session: Session | None = None
    """A public account, for callers and the arbiter."""
    environment: dict[AnyVariable, Annotated[str, _with_words(*OF_A_MACHINE)]] = Field(
        default_factory=dict
    )
    """Variables for its scripts; names with dots and hyphens only on a stock image."""
    places: Places = Places()
    """What machines are told by their place in the tier."""
    files: dict[Annotated[str, Field(pattern="^/")], str] = Field(default_factory=dict)
    """Files of its folder that are laid onto the machine, words in braces filled in."""
    settings: dict[Variable, Setting] = Field(default_factory=dict)
    """Variables of the environment that an arm may set."""
    ready: Ready = Ready()
    """When a machine is given up."""
    fit: Fit = Fit()
    """What the planner must know."""
    content: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Paths of its image that ci/bundle packs for EC2."""
    _directory: Path = PrivateAttr(default=Path())

    @model_validator(mode="after")
    def _one_image(self) -> Role:
        stated = [key for key in ("image", "context", "image_of") if getattr(self, key) is not None]
        if len(stated) > 1:
            raise refusal("one of image, context and image_of", got=f"{len(stated)}", key=stated[1])
        if self.process is not None and not self.is_stock:
            raise refusal("process beside image or context", got="neither", key="process")
        for name in self.environment:
            if not self.is_stock and not name.isidentifier():
                raise refusal("a name that a shell takes", got=name, key="environment")
        return self

    @property
    def is_stock(self) -> bool:
        """True if it stands on a stock image, which knows what to run."""
        return self.image is not None or self.context is not None

    @property
    def directory(self) -> Path:
        """The folder of its role.json."""
        return self._directory

    def call_of(self, role: str) -> int | None:
        """The place in `calls` of how a machine of this role asks one of `role`; None: never."""
        fitting = (k for k, call in enumerate(self.calls) if not call.roles or role in call.roles)
        return next(fitting, None)


Roles = Mapping[str, Role]


def find_roles(design: Path | None = None) -> Roles:
    """All roles by name: those of infra/roles, and before them the design's own.

    Raises InputError with file, line and key for what is wrong in any of them.
    """
    roles: dict[str, Role] = {}
    problems: list[InputError] = []
    for folder in (ROLES, *([] if design is None else [design / "roles"])):
        for path in sorted(folder.glob("*/role.json")):
            try:
                roles[path.parent.name] = read_role(path)
            except InputError as error:
                problems.append(error)
    for name, role in roles.items():
        path = role.directory / "role.json"
        problems += [read_json(path).refuse(one) for one in _problems(name, role, roles)]
    raise_all(problems)
    return roles


def read_role(path: Path) -> Role:
    """One role.json by itself."""
    role = check(read_json(path), Role)
    role._directory = path.parent
    return role


def _problems(name: str, role: Role, roles: Roles) -> Iterator[Problem]:
    if not re.match(ROLE_NAME, name):
        yield Problem((), "a folder named like a tier: a-z, 0-9 and inner hyphens", name)
    for index, call in enumerate(role.calls):
        for called in call.roles:
            if called not in roles:
                yield Problem(("calls", index, "roles"), f"one of {', '.join(roles)}", called)
    if role.image_of is not None and role.image_of not in roles:
        yield Problem(("image_of",), f"one of {', '.join(roles)}", role.image_of)
    folder = role.directory
    for target, file in role.files.items():
        if not (folder / file).is_file():
            yield Problem(("files", target), f"a file in {folder}", file)
    yield from _script_problems(role)


def _script_problems(role: Role) -> Iterator[Problem]:
    """The name of the role at the node agent; a role under a second name has the other's."""
    if (
        role.context is not None
        and not (role.directory / "context" / role.context.dockerfile).is_file()
    ):
        yield Problem(("context", "dockerfile"), "a file in context/", role.context.dockerfile)
    if role.image_of is not None or not role.tier or role.is_stock:
        return
    for script in SCRIPTS:
        if not (role.directory / script).is_file():
            yield Problem((), f"{script} beside it", "no such file", "Write it.")
