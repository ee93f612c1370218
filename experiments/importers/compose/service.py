"""The services of a Compose file in one form, for all of its syntaxes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from core.config_file import ConfigFile, Key, Strict, check
from core.errors import InputError
from experiments.design.contracts import PROTOCOLS, OneOf
from experiments.importers.compose.variables import read_variables

STARTED, HEALTHY, COMPLETED = (
    "service_started",
    "service_healthy",
    "service_completed_successfully",
)
_LIMITS: Key = ("deploy", "resources", "limits")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([bkmg]?)b?", re.IGNORECASE)
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class SampleRequest(Strict):
    """A request of the first workload: its path, and a text that a good answer contains."""

    path: Annotated[str, Field(pattern="^/")]
    check: str = ""


class LoadHints(Strict):
    """`x-sparecraft.load`: the requests of users, and their rate."""

    rate_per_s: Annotated[float, Field(gt=0, strict=False)] = 10.0
    requests: Annotated[tuple[SampleRequest, ...], Field(strict=False, max_length=1000)] = ()


class Hints(Strict):
    """`x-sparecraft` of a service: what a Compose file cannot say."""

    protocol: Annotated[str, OneOf(tuple(PROTOCOLS))] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    arbiter: bool | None = None
    state: Literal["none", "copied", "own"] | None = None
    calls: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    load: LoadHints = LoadHints()


class VolumeHints(Strict):
    """`x-sparecraft` of a named volume: its first content."""

    seed: str | None = None


@dataclass(frozen=True)
class Build:
    context: Path
    dockerfile: str
    inline: str | None
    target: str | None
    arguments: Mapping[str, str]
    key: Key


@dataclass(frozen=True)
class Published:
    """A port of a service, and that of the host where it is shown."""

    target: int
    host: str
    protocol: str
    key: Key


@dataclass(frozen=True)
class Mount:
    """The content at a path: `bind` a file or folder of the project, `volume`, or `tmpfs`."""

    kind: str
    source: str
    target: str
    key: Key


@dataclass(frozen=True)
class HealthCheck:
    """A healthcheck: its command, the longest start, and the longest check [s]."""

    command: tuple[str, ...]
    start_s: float
    check_s: float
    key: Key


@dataclass(frozen=True)
class Service:
    """A service with its commands split into words, its sizes in MB and its paths absolute."""

    name: str
    image: str | None
    build: Build | None
    entrypoint: tuple[str, ...] | None
    command: tuple[str, ...] | None
    user: str | None
    workdir: str | None
    environment: Mapping[str, str]
    depends_on: Mapping[str, str]
    healthcheck: HealthCheck | None
    no_healthcheck: bool
    replicas: int
    cpus: float | None
    memory_mb: int | None
    published: tuple[Published, ...]
    exposed: tuple[int, ...]
    mounts: tuple[Mount, ...]
    secrets: tuple[Mount, ...]
    configs: tuple[Mount, ...]
    networks: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]
    links: tuple[str, ...]
    restart: bool
    profiles: tuple[str, ...]
    hints: Hints
    source: ConfigFile = field(compare=False, repr=False)

    @property
    def key(self) -> Key:
        """The place of the service in the file."""
        return ("services", self.name)


def read_services(
    source: ConfigFile,
    project: Path,
    variables: Mapping[str, str],
    of_included: Mapping[str, Mapping[str, str]],
) -> dict[str, Service]:
    """Return all services by name. Raises InputError at the first invalid part.

    Parameters: of_included, by name the variables of services that do not see the project's.
    """
    services = source.values.get("services") or {}
    if not services:
        raise source.error("services", expected="at least one service", got="none", hint="Add one.")
    return {
        name: _Reader(
            source, project, name, fields or {}, of_included.get(name, variables)
        ).service()
        for name, fields in services.items()
    }


class _Reader:
    """Reads one service."""

    def __init__(
        self,
        source: ConfigFile,
        project: Path,
        name: str,
        values: Mapping[str, Any],
        variables: Mapping[str, str],
    ) -> None:
        self.source, self.project, self.name = source, project, name
        self.values, self.variables = values, variables

    def refuse(
        self, *key: str | int, expected: str, got: str, hint: str = "Correct it."
    ) -> InputError:
        return self.source.error("services", self.name, *key, expected=expected, got=got, hint=hint)

    def service(self) -> Service:
        healthcheck, no_healthcheck = self.healthcheck()
        values = self.values
        deploy = values.get("deploy") or {}
        limits = (deploy.get("resources") or {}).get("limits") or {}
        return Service(
            name=self.name,
            image=values.get("image"),
            build=self.build(),
            entrypoint=self.split_command("entrypoint"),
            command=self.split_command("command"),
            user=None if values.get("user") is None else str(values["user"]),
            workdir=values.get("working_dir"),
            environment=self.environment(),
            depends_on=self.depends_on(),
            healthcheck=healthcheck,
            no_healthcheck=no_healthcheck,
            replicas=self.replicas(deploy),
            cpus=self.cpus(limits),
            memory_mb=self.memory_mb(limits),
            published=tuple(self.published()),
            exposed=tuple(self.exposed()),
            mounts=tuple(self.mounts()),
            secrets=tuple(self.grants("secrets")),
            configs=tuple(self.grants("configs")),
            networks=self.networks(),
            names=tuple(
                str(values[key]) for key in ("container_name", "hostname") if values.get(key)
            ),
            links=tuple(str(link) for link in values.get("links") or ()),
            restart=self.restarts(deploy),
            profiles=tuple(values.get("profiles") or ()),
            hints=self.hints(),
            source=self.source,
        )

    def hints(self) -> Hints:
        hints = self.values.get("x-sparecraft") or {}
        key = ("services", self.name, "x-sparecraft")
        if not isinstance(hints, dict):
            raise self.source.error(*key, expected="keys and values", got=repr(hints)[:40])
        return check(self.source.part(hints, *key), Hints)

    def split_command(self, key: str) -> tuple[str, ...] | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            try:
                return tuple(shlex.split(value))
            except ValueError as error:
                raise self.refuse(
                    key, expected="words as a shell has them", got=str(error)
                ) from error
        return tuple(str(word) for word in value)

    def build(self) -> Build | None:
        build = self.values.get("build")
        if build is None:
            return None
        key: Key = ("services", self.name, "build")
        build = {"context": build} if isinstance(build, str) else build
        context = str(build.get("context", "."))
        if re.match(r"^(https?|git|ssh)://|^git@|^github\.com/", context):
            raise self.refuse(
                "build",
                "context",
                expected="a folder",
                got=context,
                hint="Clone it, and give its folder.",
            )
        return Build(
            context=(self.project / context).resolve(),
            dockerfile=str(build.get("dockerfile", "Dockerfile")),
            inline=build.get("dockerfile_inline"),
            target=build.get("target"),
            arguments={
                name: value
                for name, value in self.pairs(build.get("args"), "build", "args")
                if value is not None
            },
            key=key,
        )

    def pairs(self, entries: Any, *key: str) -> Iterator[tuple[str, str | None]]:
        """Yield the pairs of a list of NAME=value, or of a mapping. A name without a value takes it
        from the environment.
        """
        items: list[tuple[str, Any]] = []
        if isinstance(entries, dict):
            items = list(entries.items())
        else:
            for line in entries or ():
                name, equals, value = str(line).partition("=")
                items.append((name, value if equals else None))
        for name, value in items:
            if not re.match(r"^[A-Za-z_][A-Za-z0-9_.-]*$", name):
                raise self.refuse(*key, expected="NAME=value", got=repr(name)[:60])
            if value is None:
                yield name, self.variables.get(name)
            else:
                yield name, str(value).lower() if isinstance(value, bool) else str(value)

    def environment(self) -> dict[str, str]:
        variables: dict[str, str] = {}
        files = self.values.get("env_file") or ()
        for index, entry in enumerate([files] if isinstance(files, str) else files):
            file = {"path": entry} if isinstance(entry, str) else entry
            path = self.project / file["path"]
            if not path.is_file() and file.get("required", True):
                raise self.refuse(
                    "env_file",
                    *([] if isinstance(files, str) else [index]),
                    expected="an existing file",
                    got=str(file["path"]),
                    hint="Make it, or say required: false.",
                )
            if path.is_file():
                variables.update(read_variables(path, self.variables))
        pairs = self.pairs(self.values.get("environment"), "environment")
        return {**variables, **{name: value for name, value in pairs if value is not None}}

    def depends_on(self) -> dict[str, str]:
        dependencies = self.values.get("depends_on") or {}
        conditions = (
            {name: str(dependency["condition"]) for name, dependency in dependencies.items()}
            if isinstance(dependencies, dict)
            else dict.fromkeys(dependencies, STARTED)
        )
        services = self.source.values["services"]
        for name in conditions:
            if name not in services and not (
                isinstance(dependencies, dict) and dependencies[name].get("required") is False
            ):
                raise self.refuse(
                    "depends_on", expected=f"one of the services {', '.join(services)}", got=name
                )
        return {name: condition for name, condition in conditions.items() if name in services}

    def healthcheck(self) -> tuple[HealthCheck | None, bool]:
        """Return the healthcheck, and true if it also disables that of the image."""
        healthcheck = self.values.get("healthcheck")
        if healthcheck is None:
            return None, False
        test = healthcheck.get("test")
        if healthcheck.get("disable") or test in ("NONE", ["NONE"]):
            return None, True
        if test is None:  # only times, for the healthcheck of the image
            return None, False
        key: Key = ("services", self.name, "healthcheck")
        command = (
            ("/bin/sh", "-c", test) if isinstance(test, str) else self._healthcheck_command(test)
        )
        interval = self.seconds(healthcheck, "interval", 30.0)
        start_s = self.seconds(healthcheck, "start_period", 0.0)
        try:
            retries = int(healthcheck.get("retries", 3))
        except ValueError as error:
            raise self.refuse(
                "healthcheck", "retries", expected="a number", got=str(healthcheck["retries"])
            ) from error
        check_s = self.seconds(healthcheck, "timeout", 0.0)
        return HealthCheck(command, start_s + interval * retries, check_s, key), False

    def _healthcheck_command(self, test: Sequence[str]) -> tuple[str, ...]:
        if len(test) > 1 and test[0] == "CMD":
            return tuple(map(str, test[1:]))
        if len(test) == 2 and test[0] == "CMD-SHELL":
            return ("/bin/sh", "-c", str(test[1]))
        raise self.refuse(
            "healthcheck",
            "test",
            expected="NONE, CMD or CMD-SHELL, and its words",
            got=repr(list(test))[:80],
        )

    def seconds(self, fields: Mapping[str, Any], key: str, default: float) -> float:
        text = fields.get(key)
        if text is None:
            return default
        parts = _TIME.findall(str(text))
        if "".join(number + unit for number, unit in parts) != str(text) or not parts:
            raise self.refuse("healthcheck", key, expected="a time such as 1m30s", got=str(text))
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)

    def pick(self, value: Any, key: Key, fallback: str) -> tuple[Any, Key]:
        """Return the first value that is set, of `key` or of the service's key `fallback`, and
        its key.
        """
        return (self.values.get(fallback), (fallback,)) if value is None else (value, key)

    def replicas(self, deploy: Mapping[str, Any]) -> int:
        value, key = self.pick(deploy.get("replicas"), ("deploy", "replicas"), "scale")
        count = 1 if value is None else _number(value, int)
        if not 0 <= count <= 100:
            raise self.refuse(*key, expected="a number from 0 to 100", got=str(value))
        return int(count)

    def cpus(self, limits: Mapping[str, Any]) -> float | None:
        value, key = self.pick(limits.get("cpus"), (*_LIMITS, "cpus"), "cpus")
        if value is None:
            return None
        count = _number(value, float)
        if not 0 < count <= 256:
            raise self.refuse(*key, expected="a number above 0, up to 256", got=str(value))
        return count

    def memory_mb(self, limits: Mapping[str, Any]) -> int | None:
        value, key = self.pick(limits.get("memory"), (*_LIMITS, "memory"), "mem_limit")
        if value is None:
            return None
        size = _SIZE.fullmatch(str(value).strip())
        if size is None:
            raise self.refuse(*key, expected="a size such as 256m", got=str(value))
        power = " kmg".index(size[2].lower() or " ") if size[2].lower() != "b" else 0
        return int(float(size[1]) * 1024**power / 1e6)

    def published(self) -> Iterator[Published]:
        for index, entry in enumerate(self.values.get("ports") or ()):
            key: Key = ("services", self.name, "ports", index)
            if isinstance(entry, dict):
                yield from self._range(
                    str(entry.get("target", "")),
                    str(entry.get("published", "")),
                    str(entry.get("host_ip", "")),
                    str(entry.get("protocol", "tcp")),
                    key,
                )
                continue
            text, _, protocol = str(entry).partition("/")
            ahead, _, target = text.rpartition(":")
            ip, _, host = ahead.rpartition(":")
            yield from self._range(target, host, ip.strip("[]"), protocol or "tcp", key)

    def _range(
        self, target: str, host: str, ip: str, protocol: str, key: Key
    ) -> Iterator[Published]:
        inside, outside = _ports(target), _ports(host) if host else []
        if (
            inside is None
            or outside is None
            or (outside and len(outside) not in (1, len(inside)) and len(inside) != 1)
        ):
            raise self.source.error(
                *key, expected="a port such as 8080:80", got=f"{host}:{target}".strip(":")
            )
        for index, port in enumerate(inside):
            address = f"{ip}:{outside[index]}" if len(outside) == len(inside) else ""
            yield Published(port, address, protocol, key)

    def exposed(self) -> Iterator[int]:
        for index, entry in enumerate(self.values.get("expose") or ()):
            text, _, protocol = str(entry).partition("/")
            ports = _ports(text)
            if ports is None:
                raise self.refuse("expose", index, expected="a port", got=str(entry))
            if protocol in ("", "tcp"):
                yield from ports

    def mounts(self) -> Iterator[Mount]:
        volumes = self.source.values.get("volumes") or {}
        for index, entry in enumerate(self.values.get("volumes") or ()):
            key: Key = ("services", self.name, "volumes", index)
            if isinstance(entry, dict):
                kind, source = str(entry["type"]), str(entry.get("source", ""))
                target = str(entry.get("target", ""))
            else:
                kind, source, target = _short_mount(str(entry))
            if not target.startswith("/"):
                raise self.source.error(
                    *key, expected="an absolute path in the container", got=target or "none"
                )
            if kind == "volume" and source and source not in volumes:
                raise self.source.error(
                    *key,
                    expected=f"one of the volumes {', '.join(volumes) or '(none is declared)'}",
                    got=source,
                    hint="Declare it under volumes; a folder begins with ./ or /.",
                )
            yield Mount(kind, source, target, key)
        tmpfs = self.values.get("tmpfs") or ()
        for path in [tmpfs] if isinstance(tmpfs, str) else tmpfs:
            yield Mount("tmpfs", "", str(path).partition(":")[0], ("services", self.name, "tmpfs"))

    def grants(self, kind: str) -> Iterator[Mount]:
        """Yield secrets or configs, each with its path in the service."""
        declared = self.source.values.get(kind) or {}
        for index, entry in enumerate(self.values.get(kind) or ()):
            grant = {"source": entry} if isinstance(entry, str) else entry
            name = str(grant["source"]) if "source" in grant else ""
            key: Key = ("services", self.name, kind, index)
            if name not in declared:
                raise self.source.error(
                    *key,
                    expected=f"one of the {kind} {', '.join(declared) or '(none is declared)'}",
                    got=name,
                )
            default = f"/run/secrets/{name}" if kind == "secrets" else f"/{name}"
            target = str(grant.get("target") or default)
            if not target.startswith("/"):
                target = f"/run/secrets/{target}" if kind == "secrets" else f"/{target}"
            yield Mount(kind, name, target, key)

    def networks(self) -> dict[str, tuple[str, ...]]:
        """Return, for each network of the service, its aliases there."""
        networks = self.values.get("networks")
        if not networks:
            return {"default": ()}
        declared = self.source.values.get("networks") or {}
        aliases: dict[str, tuple[str, ...]] = dict.fromkeys(networks, ())
        if isinstance(networks, dict):
            aliases = {
                name: tuple((network or {}).get("aliases") or ())
                for name, network in networks.items()
            }
        for name in aliases:
            if name not in declared and name != "default":
                raise self.refuse(
                    "networks",
                    expected=f"one of the networks {', '.join(declared) or '(none is declared)'}",
                    got=name,
                )
        return aliases

    def restarts(self, deploy: Mapping[str, Any]) -> bool:
        condition = (deploy.get("restart_policy") or {}).get("condition")
        if condition is not None:
            return str(condition) != "none"
        return str(self.values.get("restart") or "no") not in ("no", "False", "false")


def _number(value: Any, kind: type[float]) -> float:
    """Return a value as a number; -1 if it is none."""
    try:
        return kind(value)
    except ValueError:
        return -1


def _ports(text: str) -> list[int] | None:
    """Return the ports of `80` or `80-82`; None for any other text."""
    match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
    if match is None:
        return None
    first = int(match[1])
    last = int(match[2] or first)
    return (
        list(range(first, last + 1)) if 1 <= first <= last <= 65535 and last - first < 100 else None
    )


def _short_mount(text: str) -> tuple[str, str, str]:
    """Return kind, source and target of SOURCE:TARGET[:OPTIONS] or TARGET."""
    parts = text.split(":")
    if len(parts) == 1:
        return "volume", "", parts[0]
    kind = "bind" if parts[0].startswith((".", "/", "~")) else "volume"
    return kind, parts[0], parts[1]
