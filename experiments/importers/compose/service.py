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
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([bkmg]?)b?", re.IGNORECASE)
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class SampleRequest(Strict):
    """A request of the first workload: its path, and a text that a good answer contains."""

    path: Annotated[str, Field(pattern="^/")]
    check: str = ""


class LoadHints(Strict):
    """`x-sparecraft.load`: what users ask, and how often."""

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
    """`x-sparecraft` of a named volume: what it is filled with."""

    seed: str | None = None


@dataclass(frozen=True)
class Build:
    """A build context, and how it is built."""

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
    """A healthcheck: a program, the time that the service may take until it holds, and that of one
    check [s]."""

    words: tuple[str, ...]
    start_s: float
    check_s: float
    key: Key


@dataclass(frozen=True)
class Service:
    """A service, its texts split into words, its sizes in MB, its paths absolute."""

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
    """Return all services by name. Raises InputError at the first part that is none.

    Parameters: of_included, by name the variables of services that see others than the project's.
    """
    services = source.values.get("services") or {}
    if not services:
        raise source.error("services", expected="at least one service", got="none", hint="Add one.")
    return {
        name: _Reader(source, project, name, one or {}, of_included.get(name, variables)).service()
        for name, one in services.items()
    }


class _Reader:
    """Reads one service."""

    def __init__(
        self,
        source: ConfigFile,
        project: Path,
        name: str,
        told: Mapping[str, Any],
        variables: Mapping[str, str],
    ) -> None:
        self.source, self.project, self.name = source, project, name
        self.told, self.variables = told, variables

    def refuse(
        self, *key: str | int, expected: str, got: str, hint: str = "Correct it."
    ) -> InputError:
        return self.source.error("services", self.name, *key, expected=expected, got=got, hint=hint)

    def service(self) -> Service:
        healthcheck, no_healthcheck = self.healthcheck()
        told = self.told
        deploy = told.get("deploy") or {}
        return Service(
            name=self.name,
            image=told.get("image"),
            build=self.build(),
            entrypoint=self.words("entrypoint"),
            command=self.words("command"),
            user=None if told.get("user") is None else str(told["user"]),
            workdir=told.get("working_dir"),
            environment=self.environment(),
            depends_on=self.depends_on(),
            healthcheck=healthcheck,
            no_healthcheck=no_healthcheck,
            replicas=self.replicas(deploy),
            cpus=self.cpus(deploy),
            memory_mb=self.memory_mb(deploy),
            published=tuple(self.published()),
            exposed=tuple(self.exposed()),
            mounts=tuple(self.mounts()),
            secrets=tuple(self.granted("secrets")),
            configs=tuple(self.granted("configs")),
            networks=self.networks(),
            names=tuple(str(told[key]) for key in ("container_name", "hostname") if told.get(key)),
            links=tuple(str(link) for link in told.get("links") or ()),
            restart=self.restarts(deploy),
            profiles=tuple(told.get("profiles") or ()),
            hints=self.hints(),
            source=self.source,
        )

    def hints(self) -> Hints:
        told = self.told.get("x-sparecraft") or {}
        key = ("services", self.name, "x-sparecraft")
        if not isinstance(told, dict):
            raise self.source.error(*key, expected="keys and values", got=repr(told)[:40])
        return check(self.source.part(told, *key), Hints)

    def words(self, key: str) -> tuple[str, ...] | None:
        told = self.told.get(key)
        if told is None:
            return None
        if isinstance(told, str):
            try:
                return tuple(shlex.split(told))
            except ValueError as error:
                raise self.refuse(
                    key, expected="words as a shell has them", got=str(error)
                ) from error
        return tuple(str(word) for word in told)

    def build(self) -> Build | None:
        told = self.told.get("build")
        if told is None:
            return None
        key: Key = ("services", self.name, "build")
        told = {"context": told} if isinstance(told, str) else told
        context = str(told.get("context", "."))
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
            dockerfile=str(told.get("dockerfile", "Dockerfile")),
            inline=told.get("dockerfile_inline"),
            target=told.get("target"),
            arguments={
                k: v for k, v in self.pairs(told.get("args"), "build", "args") if v is not None
            },
            key=key,
        )

    def pairs(self, told: Any, *key: str) -> Iterator[tuple[str, str | None]]:
        """Read a list of NAME=value, or a mapping; a name without a value is taken from the
        environment.
        """
        items: list[tuple[str, Any]] = []
        if isinstance(told, dict):
            items = list(told.items())
        else:
            for line in told or ():
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
        found: dict[str, str] = {}
        files = self.told.get("env_file") or ()
        for at, told in enumerate([files] if isinstance(files, str) else files):
            one = {"path": told} if isinstance(told, str) else told
            path = self.project / one["path"]
            if not path.is_file() and one.get("required", True):
                raise self.refuse(
                    "env_file",
                    *([] if isinstance(files, str) else [at]),
                    expected="an existing file",
                    got=str(one["path"]),
                    hint="Make it, or say required: false.",
                )
            if path.is_file():
                found.update(read_variables(path, self.variables))
        own = self.pairs(self.told.get("environment"), "environment")
        return {**found, **{name: value for name, value in own if value is not None}}

    def depends_on(self) -> dict[str, str]:
        told = self.told.get("depends_on") or {}
        found = (
            {name: str(one["condition"]) for name, one in told.items()}
            if isinstance(told, dict)
            else dict.fromkeys(told, STARTED)
        )
        services = self.source.values["services"]
        for name in found:
            if name not in services and not (
                isinstance(told, dict) and told[name].get("required") is False
            ):
                raise self.refuse(
                    "depends_on", expected=f"one of the services {', '.join(services)}", got=name
                )
        return {name: condition for name, condition in found.items() if name in services}

    def healthcheck(self) -> tuple[HealthCheck | None, bool]:
        """Return the healthcheck; and true where it says that there is none, not the image's
        either.
        """
        told = self.told.get("healthcheck")
        if told is None:
            return None, False
        test = told.get("test")
        if told.get("disable") or test in ("NONE", ["NONE"]):
            return None, True
        if test is None:  # other times for the image's own
            return None, False
        key: Key = ("services", self.name, "healthcheck")
        words = ("/bin/sh", "-c", test) if isinstance(test, str) else self._healthcheck_words(test)
        interval = self.seconds(told, "interval", 30.0)
        start = self.seconds(told, "start_period", 0.0)
        try:
            retries = int(told.get("retries", 3))
        except ValueError as error:
            raise self.refuse(
                "healthcheck", "retries", expected="a number", got=str(told["retries"])
            ) from error
        check_s = self.seconds(told, "timeout", 0.0)
        return HealthCheck(words, start + interval * retries, check_s, key), False

    def _healthcheck_words(self, test: Sequence[str]) -> tuple[str, ...]:
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

    def seconds(self, told: Mapping[str, Any], key: str, default: float) -> float:
        text = told.get(key)
        if text is None:
            return default
        parts = _TIME.findall(str(text))
        if "".join(number + unit for number, unit in parts) != str(text) or not parts:
            raise self.refuse("healthcheck", key, expected="a time such as 1m30s", got=str(text))
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)

    def replicas(self, deploy: Mapping[str, Any]) -> int:
        for key, told in (
            (("deploy", "replicas"), deploy.get("replicas")),
            (("scale",), self.told.get("scale")),
        ):
            if told is not None:
                try:
                    count = int(told)
                except ValueError:
                    count = -1
                if not 0 <= count <= 100:
                    raise self.refuse(*key, expected="a number from 0 to 100", got=str(told))
                return count
        return 1

    def cpus(self, deploy: Mapping[str, Any]) -> float | None:
        limits = (deploy.get("resources") or {}).get("limits") or {}
        for key, told in (
            (("deploy", "resources", "limits", "cpus"), limits.get("cpus")),
            (("cpus",), self.told.get("cpus")),
        ):
            if told is not None:
                try:
                    count = float(told)
                except ValueError:
                    count = -1.0
                if not 0 < count <= 256:
                    raise self.refuse(*key, expected="a number above 0, up to 256", got=str(told))
                return count
        return None

    def memory_mb(self, deploy: Mapping[str, Any]) -> int | None:
        limits = (deploy.get("resources") or {}).get("limits") or {}
        for key, told in (
            (("deploy", "resources", "limits", "memory"), limits.get("memory")),
            (("mem_limit",), self.told.get("mem_limit")),
        ):
            if told is not None:
                size = _SIZE.fullmatch(str(told).strip())
                if size is None:
                    raise self.refuse(*key, expected="a size such as 256m", got=str(told))
                power = " kmg".index(size[2].lower() or " ") if size[2].lower() != "b" else 0
                return int(float(size[1]) * 1024**power / 1e6)
        return None

    def published(self) -> Iterator[Published]:
        for at, told in enumerate(self.told.get("ports") or ()):
            key: Key = ("services", self.name, "ports", at)
            if isinstance(told, dict):
                yield from self._range(
                    str(told.get("target", "")),
                    str(told.get("published", "")),
                    str(told.get("host_ip", "")),
                    str(told.get("protocol", "tcp")),
                    key,
                )
                continue
            text, _, protocol = str(told).partition("/")
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
        for at, port in enumerate(inside):
            shown = f"{ip}:{outside[at]}" if len(outside) == len(inside) else ""
            yield Published(port, shown, protocol, key)

    def exposed(self) -> Iterator[int]:
        for at, told in enumerate(self.told.get("expose") or ()):
            text, _, protocol = str(told).partition("/")
            ports = _ports(text)
            if ports is None:
                raise self.refuse("expose", at, expected="a port", got=str(told))
            if protocol in ("", "tcp"):
                yield from ports

    def mounts(self) -> Iterator[Mount]:
        named = self.source.values.get("volumes") or {}
        for at, told in enumerate(self.told.get("volumes") or ()):
            key: Key = ("services", self.name, "volumes", at)
            if isinstance(told, dict):
                kind, source = str(told["type"]), str(told.get("source", ""))
                target = str(told.get("target", ""))
            else:
                kind, source, target = _short_mount(str(told))
            if not target.startswith("/"):
                raise self.source.error(
                    *key, expected="an absolute path in the container", got=target or "none"
                )
            if kind == "volume" and source and source not in named:
                raise self.source.error(
                    *key,
                    expected=f"one of the volumes {', '.join(named) or '(none is declared)'}",
                    got=source,
                    hint="Declare it under volumes; a folder begins with ./ or /.",
                )
            yield Mount(kind, source, target, key)
        tmpfs = self.told.get("tmpfs") or ()
        for path in [tmpfs] if isinstance(tmpfs, str) else tmpfs:
            yield Mount("tmpfs", "", str(path).partition(":")[0], ("services", self.name, "tmpfs"))

    def granted(self, kind: str) -> Iterator[Mount]:
        """Secrets or configs, each with the path at which the service finds it."""
        known = self.source.values.get(kind) or {}
        for at, told in enumerate(self.told.get(kind) or ()):
            one = {"source": told} if isinstance(told, str) else told
            name = str(one["source"]) if "source" in one else ""
            key: Key = ("services", self.name, kind, at)
            if name not in known:
                raise self.source.error(
                    *key,
                    expected=f"one of the {kind} {', '.join(known) or '(none is declared)'}",
                    got=name,
                )
            default = f"/run/secrets/{name}" if kind == "secrets" else f"/{name}"
            target = str(one.get("target") or default)
            if not target.startswith("/"):
                target = f"/run/secrets/{target}" if kind == "secrets" else f"/{target}"
            yield Mount(kind, name, target, key)

    def networks(self) -> dict[str, tuple[str, ...]]:
        """Network to the further names that the service has in it."""
        told = self.told.get("networks")
        if not told:
            return {"default": ()}
        named = self.source.values.get("networks") or {}
        found: dict[str, tuple[str, ...]] = dict.fromkeys(told, ())
        if isinstance(told, dict):
            found = {name: tuple((one or {}).get("aliases") or ()) for name, one in told.items()}
        for name in found:
            if name not in named and name != "default":
                raise self.refuse(
                    "networks",
                    expected=f"one of the networks {', '.join(named) or '(none is declared)'}",
                    got=name,
                )
        return found

    def restarts(self, deploy: Mapping[str, Any]) -> bool:
        condition = (deploy.get("restart_policy") or {}).get("condition")
        if condition is not None:
            return str(condition) != "none"
        return str(self.told.get("restart") or "no") not in ("no", "False", "false")


def _ports(text: str) -> list[int] | None:
    """Return the ports of `80` or `80-82`; None if that is none."""
    found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
    if found is None:
        return None
    first = int(found[1])
    last = int(found[2] or first)
    return (
        list(range(first, last + 1)) if 1 <= first <= last <= 65535 and last - first < 100 else None
    )


def _short_mount(text: str) -> tuple[str, str, str]:
    """Kind, source and target of SOURCE:TARGET[:OPTIONS] or TARGET."""
    parts = text.split(":")
    if len(parts) == 1:
        return "volume", "", parts[0]
    kind = "bind" if parts[0].startswith((".", "/", "~")) else "volume"
    return kind, parts[0], parts[1]
