"""hosts.toml: the existing machines.

ttl_hours = 4
key = "~/.ssh/fleet"            # optional: else ssh's own choice
known_hosts = "known_hosts"     # optional, beside this file: else ssh's own

[[hosts]]
name = "rack1-a"
address = "10.0.0.11"           # of ssh and of the agent, IPv4
data_interface = "eth1"         # carries nothing else
user = "root"                   # or one who may `sudo -n`
cores = 8
usd_per_hour = 0.12
power_off = "ipmitool -H bmc-a ... chassis power off"   # optional, both: a shell's command here
power_on = "ipmitool -H bmc-a ... chassis power on"
sysrq = true                    # optional: machine.reboot may be the kernel's, at once
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.errors import InputError


class Host(BaseModel):
    """One existing machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    address: str = Field(pattern=r"^\d+\.\d+\.\d+\.\d+$")
    port: int = Field(22, ge=1, le=65535)
    user: str = Field("root", pattern=r"^[a-z_][a-z0-9_-]*$")
    data_interface: str = Field(pattern=r"^[A-Za-z0-9_.@-]{1,15}$")
    cores: int = Field(ge=1)
    usd_per_hour: float | None = Field(None, ge=0)
    power_off: str | None = None
    power_on: str | None = None
    sysrq: bool = False

    @model_validator(mode="after")
    def _check_power_commands(self) -> Host:
        if (self.power_off is None) != (self.power_on is None):
            raise ValueError("power_off and power_on come together")
        return self


class Hosts(BaseModel):
    """All machines, in the order in which they are taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: tuple[Host, ...] = Field(min_length=1)
    key: str | None = None
    known_hosts: str | None = None
    ttl_hours: float = Field(4.0, gt=0, le=168)

    @model_validator(mode="after")
    def _check_unique(self) -> Hosts:
        for key in ("name", "address"):
            values = [getattr(host, key) for host in self.hosts]
            duplicates = sorted({value for value in values if values.count(value) > 1})
            if duplicates:
                raise ValueError(f"{key} {', '.join(duplicates)} is there twice")
        return self


def read(file: Path) -> Hosts:
    """Return the content of `file`, paths in it from its folder. Raises InputError."""
    try:
        hosts = Hosts.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise InputError(
            str(file),
            expected="the hosts of a fleet, as experiments/testbed/platforms/hosts/README.md shows",
            got=str(getattr(error, "strerror", None) or error),
            hint="Mend it, or give another file with --hosts.",
        ) from error
    paths = {
        name: str((file.resolve().parent / Path(value).expanduser()).resolve())
        for name in ("key", "known_hosts")
        if (value := getattr(hosts, name)) is not None
    }
    return hosts.model_copy(update=paths)
