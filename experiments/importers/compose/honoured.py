"""Parts of a Compose file that have no effect in a fleet: a line and a place for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core.config_file import ConfigFile, Key
from experiments.importers.compose.service import COMPLETED, Service

HONOURED = {
    "build", "command", "configs", "container_name", "cpus", "depends_on", "deploy", "entrypoint",
    "env_file", "environment", "expose", "healthcheck", "hostname", "image", "links", "mem_limit",
    "networks", "ports", "profiles", "restart", "scale", "secrets", "tmpfs", "user", "volumes",
    "working_dir",
}  # fmt: skip
_CAPABILITIES = "a service gets the few capabilities that the node agent leaves"
_KERNEL = "machines have the host's own"
_TERMINAL = "a service of a fleet has no terminal"
REASONS = {
    "cap_add": _CAPABILITIES,
    "privileged": _CAPABILITIES,
    "security_opt": _CAPABILITIES,
    "devices": "machines have no devices of the host",
    "gpus": "machines have no devices of the host",
    "sysctls": _KERNEL,
    "ulimits": _KERNEL,
    "shm_size": _KERNEL,
    "network_mode": "each machine has a data and a control network of its own",
    "extra_hosts": "a machine knows the tiers that it calls, and no others",
    "dns": "a machine knows the tiers that it calls, and no others",
    "external_links": "what is no part of the fleet cannot be called",
    "logging": "what a service says stays in its machine's log",
    "stdin_open": _TERMINAL,
    "tty": _TERMINAL,
    "stop_signal": "a service ends by SIGTERM",
    "stop_grace_period": "a service has 5 s to end",
    "platform": "the image has to be of this host's platform",
    "init": "the node agent is the first process, and reaps",
    "read_only": "a machine's files can be written to",
    "labels": "nothing in a fleet reads them",
    "pull_policy": "an image is pulled where it is not there",
    "develop": "a run measures the files as they are imported",
}
CHECK_S = 5.0  # the time that the node agent gives ready.sh
_NOTHING = "a fleet has nothing like it"
_BUILD = {"context", "dockerfile", "dockerfile_inline", "target", "args"}
_BUILD_CACHES = {"cache_from", "cache_to", "no_cache", "pull", "tags", "labels", "platforms"}
_DEPLOY = {
    "mode": "a tier has as many machines as replicas says",
    "placement": "machines are spread over the hosts by the stack",
    "update_config": "a fleet is made whole, and not updated",
    "rollback_config": "a fleet is made whole, and not updated",
    "endpoint_mode": "a tier has an arbiter, or its callers know its machines",
}


def find_unhonoured(
    source: ConfigFile, services: Mapping[str, Service]
) -> Iterator[tuple[Key, str]]:
    """Yield the keys that have no effect, each with the reason."""
    for key in source.values:
        if key == "models":
            yield (key,), _NOTHING
    for name, network in (source.values.get("networks") or {}).items():
        for key, value in (network or {}).items():
            if (key, value) not in (("driver", "bridge"), ("name", value)) and not key.startswith(
                "x-"
            ):
                yield ("networks", name, key), "networks decide who calls whom, and nothing else"
    for name, volume in (source.values.get("volumes") or {}).items():
        for key in volume or {}:
            if key in ("driver", "driver_opts", "external"):
                yield (
                    ("volumes", name, key),
                    "a volume is a part of its machine, fresh for each fleet",
                )
    for name, service in services.items():
        yield from _find_in_service(name, source.values["services"][name] or {}, service)
    yield from _find_shared_volumes(services)


def _find_in_service(
    name: str, fields: Mapping[str, Any], service: Service
) -> Iterator[tuple[Key, str]]:
    top: Key = ("services", name)
    for key in fields:
        if key not in HONOURED and not key.startswith("x-"):
            yield (*top, key), REASONS.get(key, _NOTHING)
    build = fields.get("build")
    for key in build if isinstance(build, dict) else ():
        if key not in _BUILD and not key.startswith("x-"):
            reason = (
                "the build's own cache is kept"
                if key in _BUILD_CACHES
                else "the image is built without BuildKit"
            )
            yield (*top, "build", key), reason
    deploy = fields.get("deploy") or {}
    for key in deploy:
        if key in _DEPLOY:
            yield (*top, "deploy", key), _DEPLOY[key]
        elif key == "labels":
            yield (*top, "deploy", key), REASONS["labels"]
    if "reservations" in (deploy.get("resources") or {}):
        yield (*top, "deploy", "resources", "reservations"), "a machine has its limits to itself"
    for callee, condition in service.depends_on.items():
        if condition == COMPLETED:
            reason = f"{callee} would have to end first, and machines of a fleet do not end"
            yield (*top, "depends_on", callee), reason
    if service.healthcheck is not None and service.healthcheck.check_s > CHECK_S:
        yield (*top, "healthcheck", "timeout"), f"a check has {CHECK_S:g} s"
    for kind in ("secrets", "configs"):
        for index, grant in enumerate(fields.get(kind) or ()):
            for key in ("uid", "gid", "mode"):
                if isinstance(grant, dict) and key in grant:
                    yield (*top, kind, index, key), "everybody on the machine may read it"
    for port in service.published:
        if port.protocol != "tcp":
            yield port.key, f"{port.target}/{port.protocol}: an arbiter and load are TCP only"


def _find_shared_volumes(services: Mapping[str, Service]) -> Iterator[tuple[Key, str]]:
    """Yield the volumes of several services or machines: in a fleet, each machine has its own."""
    services_of_volume: dict[str, list[Service]] = {}
    for service in services.values():
        for mount in service.mounts:
            if mount.kind == "volume" and mount.source:
                services_of_volume.setdefault(mount.source, []).append(service)
    for volume, users in services_of_volume.items():
        if len(users) > 1:
            names = ", ".join(user.name for user in users)
            yield ("volumes", volume), f"{names} do not share it: each machine has its own"
        elif users[0].replicas > 1:
            yield (
                ("volumes", volume),
                f"the {users[0].replicas} machines of {users[0].name} have one each",
            )
