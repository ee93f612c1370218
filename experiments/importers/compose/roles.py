"""A service as a role's folder: role.json, its build context, files that replace the image's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from core.config_file import ConfigFile, Key, check
from experiments.importers.compose.contents import check_size, copy, make_portable
from experiments.importers.compose.service import HEALTHY, Mount, Service, VolumeHints
from experiments.importers.compose.tiers import Tier, names_of

Note = Callable[[Key, str], None]
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")  # of a fact of the machine
_READY_S = (60.0, 600.0)


def write_role(
    design: Path,
    tier: Tier,
    tiers: Mapping[str, Tier],
    source: ConfigFile,
    note: Note,
    variables: Mapping[str, str],
) -> None:
    """Write `roles/TIER` of the design. Raises InputError with the place of a file too large."""
    folder = design / "roles" / tier.name
    folder.mkdir()
    service = tier.service
    role: dict[str, object] = {
        "summary": _summary(service),
        "protocol": tier.protocol,
        "port": tier.port,
        "state": tier.state,
    }
    if not tier.arbiter:
        role["arbiter"] = False
    if service.build is not None:
        role["context"] = _context(folder, service, note)
    else:
        role["image"] = service.image
    if process := _process(service):
        role["process"] = process
    if environment := _environment(service, note):
        role["environment"] = environment
    if calls := [_call(tier, tiers[name], at) for at, name in enumerate(tier.calls, 1)]:
        role["calls"] = calls
    if service.healthcheck is not None:
        role["ready"] = {
            "timeout_s": min(max(service.healthcheck.start_s, _READY_S[0]), _READY_S[1])
        }
    if tier.protocol in ("tcp", "mysql"):
        role["fit"] = {"token_hold": "connection"}
    for mount in service.mounts:
        _copy_mount(folder, mount, service, note)
    for grant in (*service.secrets, *service.configs):
        _write_grant(folder, grant, source, note, variables)
    (folder / "role.json").write_text(json.dumps(role, indent=2) + "\n", encoding="utf-8")


def _summary(service: Service) -> str:
    origin = f"image {service.image}" if service.build is None else "built of context/"
    return f"{service.name} of a Compose file, {origin}"


def _context(folder: Path, service: Service, note: Note) -> dict[str, object]:
    build = service.build
    assert build is not None
    check_size(build.context, service.source, build.key)
    copy(build.context, folder / "context")
    dockerfile = build.dockerfile
    if build.inline is not None:
        dockerfile = "Dockerfile.sparecraft"
        (folder / "context" / dockerfile).write_text(build.inline, encoding="utf-8")
    elif Path(dockerfile).is_absolute() or ".." in Path(dockerfile).parts:
        dockerfile = "Dockerfile.sparecraft"
        copy(build.context / build.dockerfile, folder / "context" / dockerfile)
    make_portable(
        folder / "context" / dockerfile,
        build.target,
        lambda why: note(build.key, f"{build.dockerfile}: {why}"),
    )
    return {
        **({} if dockerfile == "Dockerfile" else {"dockerfile": dockerfile}),
        **({} if build.target is None else {"target": build.target}),
        **({"arguments": dict(build.arguments)} if build.arguments else {}),
    }


def _process(service: Service) -> dict[str, object]:
    settings: dict[str, object] = {
        "entrypoint": service.entrypoint,
        "command": service.command,
        "user": service.user,
        "workdir": service.workdir,
        "healthcheck": ()
        if service.no_healthcheck
        else service.healthcheck and service.healthcheck.command,
        "restart": service.restart or None,
    }
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in settings.items()
        if value is not None
    }


def _environment(service: Service, note: Note) -> dict[str, str]:
    variables = {}
    for name, value in service.environment.items():
        key: Key = (*service.key, "environment", name)
        if "\n" in value or _PLACEHOLDER.search(value):
            note(key, f"{name} has several lines, or a word in braces: it is left out")
        else:
            variables[name] = value
    return variables


def _call(tier: Tier, callee: Tier, number: int) -> dict[str, object]:
    """Return the call of a role: its environment gives the names of a tier to the start script,
    and asks it to wait for the tier.
    """
    names = " ".join(names_of(callee.service, tier.service))
    environment = {f"CALLED_NAMES_{number}": f"{{hosts}} {names}"}
    if tier.service.depends_on.get(callee.service.name) == HEALTHY:
        environment[f"CALLED_FIRST_{number}"] = "{hosts}"
    return {"roles": [callee.name], "required": True, "environment": environment}


def _copy_mount(folder: Path, mount: Mount, service: Service, note: Note) -> None:
    """Copy a file or folder of the project, or a volume's seed, to the mount's path in `root/`."""
    if mount.kind == "bind":
        path = _find_in_project(mount, service.source.path.parent, note)
    elif mount.kind == "volume" and mount.source:
        path = _find_seed(mount, service)
    else:
        return  # a tmpfs, or a volume without a name: the machine's own disk
    if path is not None:
        check_size(path, service.source, mount.key)
        if path.is_dir():
            why = f"the files of {mount.source} are copied over the image's own at {mount.target}"
            note(mount.key, why)
        copy(path, _root_path(folder, mount.target))


def _find_in_project(mount: Mount, project: Path, note: Note) -> Path | None:
    path = (project / Path(mount.source).expanduser()).resolve()
    if Path(mount.source).is_absolute() and not path.is_relative_to(project.resolve()):
        note(mount.key, f"{mount.source} is no part of the project: it is left out")
    elif not path.exists():
        note(mount.key, f"{mount.source} is not there: it is left out")
    elif not (path.is_dir() or path.is_file()):
        note(mount.key, f"{mount.source} is neither a file nor a folder: it is left out")
    else:
        return path
    return None


def _find_seed(mount: Mount, service: Service) -> Path | None:
    source = service.source
    hints = (source.values["volumes"][mount.source] or {}).get("x-sparecraft")
    if hints is None:
        return None
    key: Key = ("volumes", mount.source, "x-sparecraft")
    if not isinstance(hints, dict):
        raise source.error(*key, expected="seed: PATH", got=repr(hints)[:40])
    seed = check(source.part(hints, *key), VolumeHints).seed
    if seed is None:
        return None
    path = (source.path.parent / seed).resolve()
    if not path.exists():
        raise source.error(*key, "seed", expected="an existing file or folder", got=seed)
    return path


def _root_path(folder: Path, target: str) -> Path:
    """Return the path in `root/` of a path on the machine. /var/run becomes /run, because it is a
    link to it in most images.
    """
    parts = [part for part in Path(target).parts if part not in ("/", "..", ".")]
    if parts[:2] == ["var", "run"]:
        parts = parts[1:]
    return folder.joinpath("root", *parts)


def _write_grant(
    folder: Path, grant: Mount, source: ConfigFile, note: Note, variables: Mapping[str, str]
) -> None:
    """Write a secret or a config as a file of the image, readable by all as Compose's are."""
    definition = source.values[grant.kind][grant.source] or {}
    target = _root_path(folder, grant.target)
    key: Key = (grant.kind, grant.source)
    if "file" in definition:
        path = (source.path.parent / str(definition["file"])).resolve()
        if not path.is_file():
            raise source.error(
                *key, "file", expected="an existing file", got=str(definition["file"])
            )
        check_size(path, source, key)
        copy(path, target)
    elif "content" in definition or "environment" in definition:
        name = str(definition.get("environment", ""))
        if "content" not in definition and name not in variables:
            raise source.error(*key, "environment", expected=f"the variable {name}", got="no value")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(str(definition.get("content", variables.get(name, ""))), encoding="utf-8")
    else:
        note(key, f"{grant.source} is kept elsewhere (external): the service does not find it")
        return
    if grant.kind == "secrets":
        note(
            key, f"{grant.source} is a file of the design and of its image: use one for tests only"
        )
