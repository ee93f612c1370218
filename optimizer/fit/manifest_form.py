"""The parts of a run's manifest.json that a plan reads, as checked models; other keys are ignored.

Where a key may be missing, None says so. A wrong value is refused by file and key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from core.config_file import ConfigFile, Positive, Written, check, refusal
from core.errors import MOST
from core.json_object import JsonObject
from core.runfiles.manifest import FILE

_Count = Annotated[int, Field(ge=1, le=MOST)]
_Share = Annotated[float, Field(ge=0, le=MOST)]


class MachineForm(Written):
    """A machine of the inventory."""

    name: str | None = None
    tier: str | None = None
    role: str | None = None
    standby: bool | None = None
    address: str | None = None
    instance_type: str | None = None


class EntryForm(Written):
    """A tier that takes load."""

    tier: str


class EndpointsForm(Written):
    """The tiers that take load: `entries`, or the address of the only one."""

    entries: list[EntryForm] | None = None
    entry: str | None = None


class InventoryForm(Written):
    """The machines of the run."""

    scheme: str | None = None
    machines: list[MachineForm] | None = None
    endpoints: EndpointsForm | None = None


class TierForm(Written):
    """A tier of fleet.tfvars."""

    role: str | None = None
    calls: list[str] | None = None
    cpus: Positive | None = None
    memory_mb: Positive | None = None
    nic_mbps: Positive | None = None
    disk_mbps: Positive | None = None


class ArbiterForm(Written):
    """An arbiter of fleet.tfvars."""

    tokens: _Count | None = None


class FleetForm(Written):
    """A fleet.tfvars."""

    tiers: dict[str, TierForm | None] | None = None
    arbiters: dict[str, ArbiterForm | None] | None = None


class SettingsForm(Written):
    """An arm's settings of a tier."""

    policy: str | None = None
    replicas: _Count | None = None
    tokens: _Count | None = None
    look_ahead: Annotated[int, Field(ge=0, le=MOST)] | None = None


class ArmForm(Written):
    """An arm."""

    settings: dict[str, SettingsForm | None] | None = None


class RoleFitForm(Written):
    """A role's own way of recording."""

    token_hold: str | None = None


class RoleForm(Written):
    """A role of the run."""

    fit: RoleFitForm | None = None
    state: str | None = None


class LoadForm(Written):
    """The load."""

    stages: list[Any] | None = None
    trace: Any = None
    connect_timeout_s: Positive | None = None
    response_timeout_s: Positive | None = None


class EndpointForm(Written):
    """A service that somebody else runs."""

    host: str | None = None


class InterferenceForm(Written):
    """The neighbours."""

    cpu_workers: Annotated[int, Field(ge=0, le=MOST)] | None = None


class SpecForm(Written):
    """The design."""

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
    """The host of the run."""

    cores: Positive | None = None
    blocks: list[BlockForm] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> HostForm:
        for number, block in enumerate(self.blocks or []):
            whole = None not in (self.cores, block.busy_share, block.stolen_share)
            if block.others_share is not None and not whole:
                raise refusal(
                    "cores, busy_share and stolen_share beside others_share",
                    got="not all of them",
                    key=f"blocks.{number}",
                )
        return self


class ManifestForm(Written):
    """A manifest.json."""

    fleet: InventoryForm | None = None
    spec: SpecForm | None = None
    host: HostForm | None = None


def form_of(manifest: Mapping[str, Any], run_dir: Path) -> ManifestForm:
    """Return the checked parts of a run's manifest. Raises InputError with file and keys."""
    return check(ConfigFile(run_dir / FILE, dict(manifest)), ManifestForm)
