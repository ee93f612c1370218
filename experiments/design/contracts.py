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
    """Annotation of a str that has to be one of these names."""

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
    """A part of a contract. Unknown keys are allowed: an agent may state more than is read here."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Protocol(_Contract):
    """A protocol that arbiters speak. `reads`: they distinguish reads from writes, so reads can be
    replicated. `compares`: they compare the replies of replicas.
    """

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
        return self.takes("tokens")

    def takes(self, parameter: str) -> bool:
        """True if the policy uses this parameter."""
        return any(known.name == parameter for known in self.parameters)


class Bounds(_Contract):
    """The smallest and the largest allowed value."""

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
        """Return the checks of a value, for pydantic."""
        return Field(
            default,
            description=self.summary,
            ge=self.minimum,
            gt=self.exclusive_minimum,
            le=self.maximum,
        )

    def field(self) -> tuple[Any, Any]:
        """Return type and default, as `pydantic.create_model` takes them."""
        types = {"number": float, "integer": int, "string": str, "boolean": bool}
        kind: Any = types[self.type]
        if self.values:
            kind = Annotated[str, OneOf(self.values)]
        if self.required:
            return kind, self.limits()
        return kind | None, self.limits(self.default)


class DoseScale(_Contract):
    """The unit of a fault's dose, and the way in which the dose is measured."""

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
        """Return `commands` or `undo` with these parameters. A parameter without a value, which
        only the machine knows, is written in capitals.
        """
        for parameter in self.parameters:
            value = parameters.get(parameter.name, parameter.default)
            number = isinstance(value, float)
            text_of_value = (
                parameter.name.upper() if value is None else f"{value:g}" if number else str(value)
            )
            text = text.replace(f"{{{parameter.name}}}", text_of_value)
        return text

    def limits(self, parameter: str) -> Any:
        """Return the checks of one of its parameters, for a key of another name."""
        return next(known for known in self.parameters if known.name == parameter).limits()

    @functools.cached_property
    def model(self) -> type[Strict]:
        """The allowed `parameters` of this kind."""
        fields: JsonObject = {parameter.name: parameter.field() for parameter in self.parameters}
        return create_model(self.kind, __base__=Strict, **fields)


# Faults that only a platform can inject: the agent is on the machine, and fails with it.
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
CPU, IPERF = "interference.cpu", "interference.iperf"

# Parameters that the runner completes in every kind that has them: machines become addresses, the
# seed is the block's, and the epoch is the planned begin of a fault, the same on all its machines.
PEERS, SEED, EPOCH_MS = "peers", "seed", "epoch_ms"


def _read_contract(name: str) -> Mapping[str, Any]:
    values: Mapping[str, Any] = json.loads((CONTRACTS / name).read_text(encoding="utf-8"))
    if values["schema"] != 1:
        raise ValueError(f"contracts/{name}: expected schema 1, came {values['schema']}")
    return values


def _fault_kinds(contract: Mapping[str, Any]) -> dict[str, FaultKind]:
    by_agent = [FaultKind.model_validate(fault) for fault in contract["faults"]]
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
    return {fault.kind: fault for fault in (*by_agent, *by_platform)}


_ARBITER, _AGENT = _read_contract("policies.json"), _read_contract("faults.json")

PROTOCOLS = {p["name"]: Protocol.model_validate(p) for p in _ARBITER["protocols"]}
# Protocols for which the load worker has a client.
SPOKEN: tuple[str, ...] = tuple(_read_contract("load-protocols.json")["protocols"])
POLICIES = {p["name"]: Policy.model_validate(p) for p in _ARBITER["policies"]}
COMPARE_MODES: Mapping[str, str] = {mode["name"]: mode["summary"] for mode in _ARBITER["compare"]}
COMPARE_OFF = next(iter(COMPARE_MODES))  # an arbiter lists it first: no comparison
TOKENS = Bounds.model_validate(_ARBITER["bounds"]["tokens"])
DEFAULT_POLICY = next(iter(POLICIES))  # an arbiter lists the plain policy first

LEASE_S_MAX = float(_AGENT["lease_s_max"])
KINDS = _fault_kinds(_AGENT)
FAULT_KINDS = tuple(name for name, kind in KINDS.items() if kind.group == "fault")
