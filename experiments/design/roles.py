"""Roles: the software of a tier's machines, from `ROLE/role.json` of infra/roles or of a design.

Terraform and `ci/bundle` read the same files. A `{word}` in a value is replaced by Terraform alone
(infra/stacks/shared/fleet.tf); here it is only checked that the word is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from core.config_file import (
    Problem,
    Strict,
    check,
    parse_json,
    raise_all,
    read_json,
    read_text,
    refusal,
)
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


def _allow_placeholders(*known: str) -> AfterValidator:
    def check_placeholders(text: str) -> str:
        for name in re.findall(r"\{([a-z_]+)\}", text):
            if name not in known:
                allowed = ", ".join(f"{{{known_name}}}" for known_name in known)
                raise refusal(f"one of {allowed} in braces", got=f"{{{name}}}")
        if "\n" in text:
            raise refusal("one line", got=repr(text))
        return text

    return AfterValidator(check_placeholders)


Environment = dict[Variable, Annotated[str, _allow_placeholders(*OF_A_MACHINE)]]
# A reference as registries have it: name with a host, a tag or a digest; it goes into a Dockerfile.
_IMAGE = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$"
# Programs of stock images take names that no shell does: discovery.type.
AnyVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]


class Call(Strict):
    """A tier that machines of this role call."""

    roles: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Roles that it may call; by default any."""
    required: bool = False
    """True: a tier of this role needs such a tier."""
    environment: dict[Variable, Annotated[str, _allow_placeholders(*OF_A_MACHINE, *OF_A_CALL)]] = (
        Field(default_factory=dict)
    )
    """Environment about the called tier for the scripts."""


class Session(Strict):
    """A public account for callers, and for the arbiter's own sessions."""

    user: str
    """Name."""
    password: str
    """Password; public: a role's data is no secret."""
    database: str
    """Database."""


class Place(Strict):
    """The settings of a machine by its place in the tier."""

    environment: Environment = Field(default_factory=dict)
    """Added to the environment of every machine of the tier."""


class Places(Strict):
    """The tier's first machine, and all others."""

    first: Place = Place()
    """The first machine: leader, primary."""
    others: Place = Place()
    """All others: followers, replicas, standbys."""


class Promotion(Strict):
    """The promotion of another machine of the tier, if the primary is lost."""

    role: str | None = None
    """Role that promotes: a tier that calls a tier of this role is promoted. By default the tier's
    own machines do."""
    state: Literal["copied", "own"]
    """State of a promoted tier's machines, as `state`."""
    takes_s: Annotated[float, Field(gt=0, le=3600)]
    """Time from the loss of the primary until another one takes writes [s]; for plans."""
    loss_of: Literal["primary", "any"] = "primary"
    """Machine whose loss stops writes for that time: the primary, or any active one; for plans."""
    nodes_min: Annotated[int, Field(ge=2, le=9)] = 2
    """Active machines of a tier that survives the loss of one."""


class Setting(Strict):
    """A variable of the environment that an arm may set: one of `values`, or within the bounds."""

    summary: str
    """Meaning of the setting."""
    values: Annotated[tuple[Scalar, ...], Field(strict=False)] | None = None
    """Allowed values."""
    minimum: float | None = None
    """Least value."""
    maximum: float | None = None
    """Largest value."""
    default: Scalar
    """Value if no arm sets it."""

    @model_validator(mode="after")
    def _check_default(self) -> Setting:
        has_bounds = self.minimum is not None and self.maximum is not None
        if has_bounds == (self.values is not None):
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
        """True if an arm may set this value."""
        if self.values is not None:
            return any(value == allowed and type(value) is type(allowed) for allowed in self.values)
        if self.minimum is None or self.maximum is None or isinstance(value, bool):
            return False
        return isinstance(value, int | float) and self.minimum <= value <= self.maximum


class Ready(Strict):
    """Limit of a machine's start, until its ready.sh succeeds."""

    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    """Longest start [s]."""


class Process(Strict):
    """The service's first process, instead of the image's own."""

    entrypoint: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """Replaces the image's ENTRYPOINT and CMD."""
    command: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """Replaces the image's CMD."""
    user: (
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+)?$")] | None
    ) = None
    """Replaces the image's USER: a name or number, optionally a group after a colon."""
    workdir: Annotated[str, Field(pattern="^/")] | None = None
    """Replaces the image's WORKDIR."""
    healthcheck: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """Replaces the image's HEALTHCHECK: a program that ends with 0 when the service is ready; an
    empty list: a connection to the port is enough."""
    restart: bool = False
    """Restart the program whenever it ends by itself."""


class Context(Strict):
    """The build of the stock image, from the folder `context` of the role."""

    dockerfile: Annotated[str, Field(pattern=r"^[^/]")] = "Dockerfile"
    """Dockerfile in that folder."""
    target: Annotated[str, Field(min_length=1)] | None = None
    """Stage to build; by default the last."""
    arguments: dict[Variable, str] = Field(default_factory=dict)
    """Values of ARG lines."""


class Fit(Strict):
    """Facts about the role for the planner's fit."""

    token_hold: Literal["connection", "request"] = "request"
    """A token of the arbiter is held by a connection, or by a request."""


class Role(Strict):
    """All keys of role.json."""

    schema_: Annotated[str | None, Field(alias="$schema")] = None
    summary: Annotated[str, Field(min_length=1)]
    """One line about the service."""
    tier: bool = True
    """True if a tier may have this role; false: a machine of the fleet's own."""
    protocol: Protocol
    """Protocol of the service and of its arbiter."""
    port: Port
    """Port of the service."""
    state: Literal["none", "copied", "own"] | None = None
    """Data that a machine keeps: none (a spare can replace any machine), copied (a new machine
    gets it from the others), own (it is lost with the machine, so a cold spare does not
    help)."""
    promotion: Promotion | None = None
    """The promotion of another machine if the primary is lost; by default there is none."""
    arbiter: bool = True
    """True if a tier of this role may have an arbiter."""
    image_of: str | None = None
    """Role whose folder and image this one uses."""
    image: Annotated[str, Field(pattern=_IMAGE)] | None = None
    """Stock image, instead of a Dockerfile."""
    context: Context | None = None
    """Build of the stock image."""
    process: Process | None = None
    """Program of a stock image without a start.sh, if not the image's own."""
    build: dict[str, str] = Field(default_factory=dict)
    """Files for the image's build: place in the context (with a final /: a folder for all
    matches) to path in the project."""
    calls: Annotated[tuple[Call, ...], Field(strict=False)] = ()
    """Tiers that it calls."""
    session: Session | None = None
    """Public account for callers and the arbiter."""
    environment: dict[AnyVariable, Annotated[str, _allow_placeholders(*OF_A_MACHINE)]] = Field(
        default_factory=dict
    )
    """Variables for its scripts; names with dots and hyphens only on a stock image."""
    places: Places = Places()
    """Environment by place in the tier."""
    files: dict[Annotated[str, Field(pattern="^/")], str] = Field(default_factory=dict)
    """Files of the role's folder for the machine; words in braces are filled in."""
    settings: dict[Variable, Setting] = Field(default_factory=dict)
    """Variables of the environment that an arm may set."""
    ready: Ready = Ready()
    """Limit of a machine's start."""
    fit: Fit = Fit()
    """Facts for the planner."""
    content: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Paths of the image that ci/bundle packs for EC2."""
    _directory: Path = PrivateAttr(default=Path())

    @model_validator(mode="after")
    def _check_image(self) -> Role:
        keys = [key for key in ("image", "context", "image_of") if getattr(self, key) is not None]
        if len(keys) > 1:
            raise refusal("one of image, context and image_of", got=f"{len(keys)}", key=keys[1])
        if self.process is not None and not self.is_stock:
            raise refusal("process beside image or context", got="neither", key="process")
        for name in self.environment:
            if not self.is_stock and not name.isidentifier():
                raise refusal("a name that a shell takes", got=name, key="environment")
        return self

    @property
    def is_stock(self) -> bool:
        """True if the role uses a stock image, which has a program of its own."""
        return self.image is not None or self.context is not None

    @property
    def directory(self) -> Path:
        """The folder of its role.json."""
        return self._directory

    def call_of(self, role: str) -> int | None:
        """Return the index of the first of `calls` that allows `role`; None if there is none."""
        fitting = (
            index for index, call in enumerate(self.calls) if not call.roles or role in call.roles
        )
        return next(fitting, None)


Roles = Mapping[str, Role]


def find_roles(design: Path | None = None) -> Roles:
    """Return all roles by name: those of infra/roles, overridden by those of the design.

    Raises InputError with file, line and key for the problems of all of them.
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
        problems += [read_json(path).refuse(problem) for problem in _problems(name, role, roles)]
    raise_all(problems)
    return roles


def read_role(path: Path) -> Role:
    """Read one role.json, and check it without the other roles."""
    return _check_role(path, read_text(path))


@lru_cache(maxsize=256)
def _check_role(path: Path, text: str) -> Role:
    """Return the role of a file with this text. The cache helps because each design needs all of
    about forty roles.
    """
    role = check(parse_json(text, path), Role)
    role._directory = path.parent
    return role


def _problems(name: str, role: Role, roles: Roles) -> Iterator[Problem]:
    if not re.match(ROLE_NAME, name):
        yield Problem((), "a folder named like a tier: a-z, 0-9 and inner hyphens", name)
    for index, call in enumerate(role.calls):
        for callee in call.roles:
            if callee not in roles:
                yield Problem(("calls", index, "roles"), f"one of {', '.join(roles)}", callee)
    promotes = role.promotion.role if role.promotion is not None else None
    if promotes is not None and role.call_of(promotes) is None:
        yield Problem(("promotion", "role"), "a role that calls names", promotes)
    if role.image_of is not None and role.image_of not in roles:
        yield Problem(("image_of",), f"one of {', '.join(roles)}", role.image_of)
    folder = role.directory
    for target, file in role.files.items():
        if not (folder / file).is_file():
            yield Problem(("files", target), f"a file in {folder}", file)
    yield from _script_problems(role)


def _script_problems(role: Role) -> Iterator[Problem]:
    """Yield the missing files of a role that the node agent needs to start it."""
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
