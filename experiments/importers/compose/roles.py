"""A service as a role's folder: role.json, its build context, files that replace its image's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from core.config_file import ConfigFile, Key, check
from experiments.importers.compose.contents import copy, for_any_builder, measured
from experiments.importers.compose.service import HEALTHY, Mount, Service, VolumeHints
from experiments.importers.compose.tiers import Tier, names_of

Note = Callable[[Key, str], None]
_WORD = re.compile(r"\{[a-z_]+\}")  # what a machine's facts are filled into
_READY_S = (60.0, 600.0)


def write_role(
    design: Path,
    tier: Tier,
    tiers: Mapping[str, Tier],
    source: ConfigFile,
    note: Note,
    variables: Mapping[str, str],
) -> None:
    """Writes `roles/TIER` of the design. Raises InputError with the place for files too large."""
    folder = design / "roles" / tier.name
    folder.mkdir()
    service = tier.service
    told: dict[str, object] = {
        "summary": _summary(service),
        "protocol": tier.protocol,
        "port": tier.port,
        "state": tier.state,
    }
    if not tier.arbiter:
        told["arbiter"] = False
    if service.build is not None:
        told["context"] = _context(folder, service, note)
    else:
        told["image"] = service.image
    if process := _process(service):
        told["process"] = process
    if environment := _environment(service, note):
        told["environment"] = environment
    if calls := [_call(tier, tiers[name], at) for at, name in enumerate(tier.calls, 1)]:
        told["calls"] = calls
    if service.healthcheck is not None:
        told["ready"] = {
            "timeout_s": min(max(service.healthcheck.start_s, _READY_S[0]), _READY_S[1])
        }
    if tier.protocol in ("tcp", "mysql"):
        told["fit"] = {"token_hold": "connection"}
    for one in service.mounts:
        _lay(folder, one, service, note)
    for one in (*service.secrets, *service.configs):
        _grant(folder, one, source, note, variables)
    (folder / "role.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _summary(service: Service) -> str:
    made = f"image {service.image}" if service.build is None else "built of context/"
    return f"{service.name} of a Compose file, {made}"


def _context(folder: Path, service: Service, note: Note) -> dict[str, object]:
    build = service.build
    assert build is not None
    measured(build.context, service.source, build.key)
    copy(build.context, folder / "context")
    dockerfile = build.dockerfile
    if build.inline is not None:
        dockerfile = "Dockerfile.sparecraft"
        (folder / "context" / dockerfile).write_text(build.inline, encoding="utf-8")
    elif Path(dockerfile).is_absolute() or ".." in Path(dockerfile).parts:
        dockerfile = "Dockerfile.sparecraft"
        copy(build.context / build.dockerfile, folder / "context" / dockerfile)
    for_any_builder(
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
    told: dict[str, object] = {
        "entrypoint": service.entrypoint,
        "command": service.command,
        "user": service.user,
        "workdir": service.workdir,
        "healthcheck": ()
        if service.no_healthcheck
        else service.healthcheck and service.healthcheck.words,
        "restart": service.restart or None,
    }
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in told.items()
        if value is not None
    }


def _environment(service: Service, note: Note) -> dict[str, str]:
    found = {}
    for name, value in service.environment.items():
        key: Key = (*service.key, "environment", name)
        if "\n" in value or _WORD.search(value):
            note(key, f"{name} has several lines, or a word in braces: it is left out")
        else:
            found[name] = value
    return found


def _call(tier: Tier, called: Tier, number: int) -> dict[str, object]:
    """Lines that tell a machine's start the names of a tier, and to wait for it."""
    names = " ".join(names_of(called.service, tier.service))
    environment = {f"CALLED_NAMES_{number}": f"{{hosts}} {names}"}
    if tier.service.depends_on.get(called.service.name) == HEALTHY:
        environment[f"CALLED_FIRST_{number}"] = "{hosts}"
    return {"roles": [called.name], "required": True, "environment": environment}


def _lay(folder: Path, mount: Mount, service: Service, note: Note) -> None:
    """A file or folder of the project, or a volume's seed, into `root/` at the mount's path."""
    if mount.kind == "bind":
        path = _in_project(mount, service.source.path.parent, note)
    elif mount.kind == "volume" and mount.source:
        path = _seed(mount, service)
    else:
        return  # a tmpfs, or a volume without a name: the machine's own disk
    if path is not None:
        measured(path, service.source, mount.key)
        if path.is_dir():
            why = f"the files of {mount.source} are copied over the image's own at {mount.target}"
            note(mount.key, why)
        copy(path, _under(folder, mount.target))


def _in_project(mount: Mount, project: Path, note: Note) -> Path | None:
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


def _seed(mount: Mount, service: Service) -> Path | None:
    source = service.source
    told = (source.values["volumes"][mount.source] or {}).get("x-sparecraft")
    if told is None:
        return None
    key: Key = ("volumes", mount.source, "x-sparecraft")
    if not isinstance(told, dict):
        raise source.error(*key, expected="seed: PATH", got=repr(told)[:40])
    seed = check(source.part(told, *key), VolumeHints).seed
    if seed is None:
        return None
    path = (source.path.parent / seed).resolve()
    if not path.exists():
        raise source.error(*key, "seed", expected="an existing file or folder", got=seed)
    return path


def _under(folder: Path, target: str) -> Path:
    """Return the place in `root/` of a path on the machine. /var/run is a link to /run in most
    images.
    """
    parts = [part for part in Path(target).parts if part not in ("/", "..", ".")]
    if parts[:2] == ["var", "run"]:
        parts = parts[1:]
    return folder.joinpath("root", *parts)


def _grant(
    folder: Path, one: Mount, source: ConfigFile, note: Note, variables: Mapping[str, str]
) -> None:
    """A secret or a config as a file of the image, readable by all as Compose's are."""
    told = source.values[one.kind][one.source] or {}
    target = _under(folder, one.target)
    key: Key = (one.kind, one.source)
    if "file" in told:
        path = (source.path.parent / str(told["file"])).resolve()
        if not path.is_file():
            raise source.error(*key, "file", expected="an existing file", got=str(told["file"]))
        measured(path, source, key)
        copy(path, target)
    elif "content" in told or "environment" in told:
        name = str(told.get("environment", ""))
        if "content" not in told and name not in variables:
            raise source.error(*key, "environment", expected=f"the variable {name}", got="no value")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(str(told.get("content", variables.get(name, ""))), encoding="utf-8")
    else:
        note(key, f"{one.source} is kept elsewhere (external): the service does not find it")
        return
    if one.kind == "secrets":
        note(key, f"{one.source} is a file of the design and of its image: use one for tests only")
