"""The Docker engines that a fleet is on: this host's, or those of a file (`--docker-hosts`).

underlay_mtu = 1500                     # optional: of the network between the hosts

[[hosts]]
name = "a"                              # the first builds images; a run is made on it
address = "unix:///var/run/docker.sock" # or tcp://HOST:PORT with certificates, or ssh://USER@HOST
underlay = "10.0.0.1"                   # IPv4 address by which the other hosts reach it
domain = "rack-1"                       # optional: hosts that fail together
certificates = "certs/a"                # optional: folder of ca.pem, cert.pem and key.pem, for tcp
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from core.config_file import Strict, check, read_toml
from core.json_object import JsonObject


@dataclass(frozen=True)
class Engine:
    """A Docker engine; without an address it is the one that `docker` itself finds."""

    name: str
    address: str = ""
    certificates: str | None = None

    @property
    def arguments(self) -> list[str]:
        """The options of `docker` that reach it."""
        if not self.address:
            return []
        options = ["--host", self.address]
        if self.certificates:
            folder = Path(self.certificates)
            files = (("cacert", "ca.pem"), ("cert", "cert.pem"), ("key", "key.pem"))
            options += ["--tlsverify", *(f"--tls{name}={folder / file}" for name, file in files)]
        return options


HERE = Engine("local")


class DockerHost(Strict):
    """One Docker host."""

    name: Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$")]
    address: Annotated[str, Field(pattern=r"^(unix|tcp|ssh)://.+")]
    domain: str | None = None
    underlay: Annotated[str | None, Field(pattern=r"^\d+\.\d+\.\d+\.\d+$")] = None
    certificates: str | None = None


class DockerHosts(Strict):
    """All Docker hosts; this process is in the networks of the first."""

    hosts: Annotated[tuple[DockerHost, ...], Field(strict=False, min_length=1, max_length=100)]
    underlay_mtu: Annotated[int, Field(ge=1280, le=9216)] = 1500


def read(file: Path) -> JsonObject:
    """Return the stack's variables of `file`, paths from its folder. Raises InputError."""
    variables = check(read_toml(file), DockerHosts).model_dump(mode="json")
    for host in variables["hosts"]:
        if host["certificates"] is not None:
            folder = file.resolve().parent / Path(host["certificates"]).expanduser()
            host["certificates"] = str(folder.resolve())
    return variables


def engines_of(variables: Mapping[str, Any]) -> tuple[Engine, ...]:
    """Return the engines of the stack, or this host's."""
    hosts = variables.get("hosts") or []
    engines = (Engine(host["name"], host["address"], host["certificates"]) for host in hosts)
    return tuple(engines) or (HERE,)
