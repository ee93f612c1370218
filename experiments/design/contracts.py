"""The agents' abilities, from their contracts: `contracts/policies.json`, `contracts/faults.json`.

Both files are printed by the programs (`arbiter --policies`, `nodeagent --kinds`) and compared in
lint. Python names a policy, protocol or fault of an agent only where a program calls it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic_core import CoreSchema, core_schema

from core.config_file import Strict, refusal
from core.json_object import JsonObject
from experiments.paths import ROOT

CONTRACTS = ROOT / "contracts"


@dataclass(frozen=True)
class OneOf:
    """Of an annotated str: one of these names."""

    names: tuple[str, ...]

    def _check(self, name: str) -> str:
        if name not in self.names:
            raise refusal(f"one of {', '.join(self.names)}", got=repr(name))
        return name

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> JsonObject:
        return {**handler(schema), "enum": list(self.names)}


class _Contract(BaseModel):
    """A part of a contract; an agent may come to tell more than is read here."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Protocol(_Contract):
    """A protocol that arbiters speak; `reads` are told from writes where it can be replicated, and
    replies of replicas held against each other where it `compares`."""

    name: str
    default_port: int | None
    reads: bool
    compares: bool


class PolicyParameter(_Contract):
    """A parameter of a policy."""

    name: str


class Policy(_Contract):
    """A policy of the arbiter; one that does not replicate sends each request once."""

    name: str
    summary: str
    replicates: bool
    parameters: tuple[PolicyParameter, ...] = ()

    @property
    def takes_tokens(self) -> bool:
        """True if it hands out tokens."""
        return self.takes("tokens")

    def takes(self, parameter: str) -> bool:
        """True where it looks at this parameter."""
        return any(one.name == parameter for one in self.parameters)


class Bounds(_Contract):
    """From the least to the greatest value, both allowed."""

    minimum: int
    maximum: int | None = None


class Parameter(_Contract):
    """One parameter of a fault."""

    name: str
    type: Literal["number", "integer", "string", "boolean"]
    required: bool
    default: Any = None
    minimum: float | None = None
    exclusive_minimum: float | None = None
    maximum: float | None = None
    values: tuple[str, ...] = ()
    summary: str = ""

    def limits(self, default: Any = ...) -> Any:
        """Return the checks that pydantic makes of a value."""
        return Field(
            default,
            description=self.summary,
            ge=self.minimum,
            gt=self.exclusive_minimum,
            le=self.maximum,
        )

    def field(self) -> tuple[Any, Any]:
        """Type and default, as `pydantic.create_model` takes them."""
        types = {"number": float, "integer": int, "string": str, "boolean": bool}
        kind: Any = types[self.type]
        if self.values:
            kind = Annotated[str, OneOf(self.values)]
        if self.required:
            return kind, self.limits()
        return kind | None, self.limits(self.default)


class DoseScale(_Contract):
    """In what unit a fault's dose is given, and how it is measured."""

    unit: str
    how: str


class FaultKind(_Contract):
    """One kind of fault or of neighbours' load."""

    kind: str
    summary: str
    commands: str
    undo: str
    group: Literal["fault", "interference"]
    stops_service: bool
    dose: DoseScale
    parameters: tuple[Parameter, ...] = ()

    def render(self, text: str, parameters: Mapping[str, Any]) -> str:
        """`commands` or `undo` with these parameters; in capitals what only the machine knows."""
        for one in self.parameters:
            value = parameters.get(one.name, one.default)
            number = isinstance(value, float)
            said = one.name.upper() if value is None else f"{value:g}" if number else str(value)
            text = text.replace(f"{{{one.name}}}", said)
        return text

    def limits(self, parameter: str) -> Any:
        """Return the checks of one of its parameters, for a key of another name."""
        return next(one for one in self.parameters if one.name == parameter).limits()

    @functools.cached_property
    def model(self) -> type[Strict]:
        """The allowed `parameters` of this kind."""
        fields: JsonObject = {one.name: one.field() for one in self.parameters}
        return create_model(self.kind, __base__=Strict, **fields)


# What only a platform can do to a machine: its agent is on the machine and goes with it.
MACHINE_CRASH, MACHINE_REBOOT, MACHINE_FREEZE = "machine.crash", "machine.reboot", "machine.freeze"
PLATFORM_DOSE = DoseScale(unit="s", how="time in which the machine's agent did not answer")
_BY_PLATFORM = {
    MACHINE_CRASH: (
        "The machine loses its power, and gets it back when the fault ends",
        "docker kill; on EC2 the instance is stopped by force",
        "docker start; on EC2 the instance is started",
    ),
    MACHINE_REBOOT: (
        "The machine loses its power and gets it back at once",
        "docker restart without a grace time; on EC2 the instance is rebooted",
        "docker start where it does not run; on EC2 the instance is started",
    ),
    MACHINE_FREEZE: (
        "Everything on the machine stops, agent and all, and goes on when it ends",
        "docker pause; on EC2 the agent stops the role's processes",
        "docker unpause; on EC2 the agent lets them go on",
    ),
}
MACHINE_KINDS = frozenset(_BY_PLATFORM)

# The neighbours that `[interference]` draws.
CPU, IPERF, IPERF_SERVER = "interference.cpu", "interference.iperf", "interference.iperf_server"

# Parameters that the runner completes, of whichever kind has them: machines become addresses, a
# seed is the block's, an epoch is when a fault was to begin, the same on all its machines.
PEERS, SEED, EPOCH_MS = "peers", "seed", "epoch_ms"


def _read(name: str) -> Mapping[str, Any]:
    values: Mapping[str, Any] = json.loads((CONTRACTS / name).read_text(encoding="utf-8"))
    if values["schema"] != 1:
        raise ValueError(f"contracts/{name}: expected schema 1, came {values['schema']}")
    return values


def _kinds(told: Mapping[str, Any]) -> dict[str, FaultKind]:
    by_agent = [FaultKind.model_validate(one) for one in told["faults"]]
    by_platform = [
        FaultKind(
            kind=kind,
            summary=summary,
            commands=commands,
            undo=undo,
            group="fault",
            stops_service=True,
            dose=PLATFORM_DOSE,
        )
        for kind, (summary, commands, undo) in _BY_PLATFORM.items()
    ]
    return {one.kind: one for one in (*by_agent, *by_platform)}


_ARBITER, _AGENT = _read("policies.json"), _read("faults.json")

PROTOCOLS = {p["name"]: Protocol.model_validate(p) for p in _ARBITER["protocols"]}
# Those that the load worker has a client for.
SPOKEN: tuple[str, ...] = tuple(_read("load-protocols.json")["protocols"])
POLICIES = {p["name"]: Policy.model_validate(p) for p in _ARBITER["policies"]}
COMPARE_MODES: Mapping[str, str] = {one["name"]: one["summary"] for one in _ARBITER["compare"]}
COMPARE_OFF = next(iter(COMPARE_MODES))  # replies are not compared, of which an arbiter tells first
TOKENS = Bounds.model_validate(_ARBITER["bounds"]["tokens"])
DEFAULT_POLICY = next(iter(POLICIES))  # the plain one, of which an arbiter knows first

LEASE_S_MAX = float(_AGENT["lease_s_max"])
KINDS = _kinds(_AGENT)
FAULT_KINDS = tuple(name for name, one in KINDS.items() if one.group == "fault")
