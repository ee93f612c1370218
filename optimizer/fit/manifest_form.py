"""The parts of a run's manifest.json that a plan reads, as checked models; other keys are ignored.

Where a key may be missing, None says so. A wrong value is refused by file and key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from core.config_file import ConfigFile, Positive, Seconds, Written, check, refusal
from core.errors import MOST
from core.json_object import JsonObject
from core.runfiles.manifest import FILE

_Count = Annotated[int, Field(ge=1, le=MOST)]
_Share = Annotated[float, Field(ge=0, le=MOST)]


class MachineForm(Written):
    name: str | None = None
    tier: str | None = None
    role: str | None = None
    standby: bool | None = None
    instance_type: str | None = None


class InventoryForm(Written):
    scheme: str | None = None
    machines: list[MachineForm] | None = None


class TierForm(Written):
    """A tier of fleet.tfvars."""

    role: str
    calls: list[str]
    cpus: Positive
    memory_mb: Positive
    nic_mbps: Positive
    disk_mbps: Positive


class ArbiterForm(Written):
    tokens: _Count | None = None


class FleetForm(Written):
    tiers: dict[str, TierForm] | None = None
    arbiters: dict[str, ArbiterForm | None] | None = None


class SettingsForm(Written):
    """An arm's settings of a tier."""

    policy: str | None = None
    replicas: _Count | None = None
    tokens: _Count | None = None
    look_ahead: Annotated[int, Field(ge=0, le=MOST)] | None = None


class ArmForm(Written):
    settings: dict[str, SettingsForm | None] | None = None


class RoleFitForm(Written):
    """A role's own way of recording."""

    token_hold: str | None = None


class PromotionForm(Written):
    """The promotion of another machine of a role's tier."""

    role: str | None = None
    state: str
    takes_s: Positive
    loss_of: Literal["primary", "any"] = "primary"
    nodes_min: Annotated[int, Field(ge=2, le=MOST)] = 2


class RoleForm(Written):
    protocol: str | None = None
    fit: RoleFitForm | None = None
    state: str | None = None
    promotion: PromotionForm | None = None


class LoadForm(Written):
    stages: list[Any] | None = None
    trace: Any = None
    connect_timeout_s: Seconds | None = None
    response_timeout_s: Seconds | None = None


class EndpointForm(Written):
    """A service that somebody else runs."""

    host: str | None = None


class InterferenceForm(Written):
    cpu_workers: Annotated[int, Field(ge=0, le=MOST)] | None = None


class SpecForm(Written):
    fleet: FleetForm | None = None
    arms: dict[str, ArmForm] | None = None
    roles: dict[str, RoleForm] | None = None
    rates: JsonObject | None = None
    slo: JsonObject | None = None
    load: LoadForm | None = None
    endpoint: EndpointForm | None = None
    interference: InterferenceForm | None = None


class BlockForm(Written):
    """The host's work in a block."""

    arm: str
    busy_share: _Share | None = None
    stolen_share: _Share | None = None
    others_share: _Share | None = None
    core_speed: Positive | None = None


class HostForm(Written):
    cores: Positive | None = None
    blocks: list[BlockForm] | None = None

    @model_validator(mode="after")
    def _require_complete(self) -> HostForm:
        for number, block in enumerate(self.blocks or []):
            complete = None not in (self.cores, block.busy_share, block.stolen_share)
            if block.others_share is not None and not complete:
                raise refusal(
                    "cores, busy_share and stolen_share beside others_share",
                    got="not all of them",
                    key=f"blocks.{number}",
                )
        return self


class ManifestForm(Written):
    fleet: InventoryForm | None = None
    spec: SpecForm | None = None
    host: HostForm | None = None


def form_of(manifest: Mapping[str, Any], run_dir: Path) -> ManifestForm:
    """Return the checked parts of a run's manifest. Raises InputError with file and keys."""
    return check(ConfigFile(run_dir / FILE, dict(manifest)), ManifestForm)
