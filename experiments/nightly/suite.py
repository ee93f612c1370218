"""nightly.toml: which designs a night runs, with which seeds, and how long it may take."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from core.config_file import (
    ConfigFile,
    Strict,
    check,
    raise_all,
    read_tfvars,
    read_toml,
    refusal,
)
from core.errors import InputError
from core.json_object import JsonObject
from experiments import kinds
from experiments.design import Design, load_design
from experiments.design.cases import merge, read_experiment
from experiments.design.design import find_design
from experiments.design.schedule import load_length_s
from experiments.design.text import toml_text
from experiments.nightly.changes import Watch
from experiments.nightly.history import read_history

SET_UP_MINUTES = 3.0  # provisioning, getting ready, planning and removing, until it was measured
UNKNOWN_MINUTES = 20.0  # of a kind that finds out while it measures how long it takes
_NOT_RUN = ("README.md", "report.png", "__pycache__")  # what may differ without another result

Seed = Annotated[int, Field(ge=0, lt=2**63)]
EntryName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,47}$")]


class Entry(Strict):
    """One design of the suite."""

    design: Annotated[str, Field(min_length=1)]
    """Name (`sparecraft list`) or folder of the design, relative to the suite's file."""
    name: EntryName | None = None
    """Name in history and site; by default the design's."""
    seeds: Annotated[tuple[Seed, ...], Field(strict=False, min_length=1)] | None = None
    """Seeds that take turns, the least recent first."""
    seed: Seed | None = None
    """Seed of the first run; each later run takes the next number. By default the design's seed,
    or a new one."""
    repeats: Annotated[int, Field(ge=1, le=20)] = 1
    """Runs in a night."""
    minutes_max: Annotated[float, Field(gt=0, le=1440)] | None = None
    """Limit of a run; by default three times the expected duration plus ten minutes."""
    close: bool = False
    """Measure the planned fleet too, as `sparecraft run --close` does, and keep the prediction."""
    override: JsonObject = Field(default_factory=dict)
    """Tables that replace those of the design's experiment.toml."""
    note: str = ""
    """Remark on the SLO, for the site."""

    @model_validator(mode="after")
    def _one_kind_of_seed(self) -> Entry:
        if self.seeds is not None and self.seed is not None:
            raise refusal("seeds or seed", got="both", key="seed", hint="Take one of them out.")
        return self

    @property
    def label(self) -> str:
        """Name in history and site."""
        return self.name or Path(self.design).name


class SuiteFile(Strict):
    """All keys of nightly.toml."""

    budget_minutes: Annotated[float, Field(gt=0, le=1440)]
    """Longest night."""
    designs: Annotated[tuple[Entry, ...], Field(strict=False, min_length=1)]
    """Designs of the suite."""
    results: str = "results"
    """Folder of runs, relative to the suite's file."""
    folder: str = "nightly"
    """Folder of history and site, relative to the suite's file."""
    keep_parquet_nights: Annotated[int, Field(ge=1)] = 30
    """Nights for which tables of single requests are kept."""
    quiet_wait_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    """`sparecraft run --quiet-wait`."""
    url: str = ""
    """Address of the site, for feed readers."""
    watch: Watch = Field(default_factory=Watch)
    """Limits of reported changes."""

    @model_validator(mode="after")
    def _names_differ(self) -> SuiteFile:
        labels: set[str] = set()
        for number, entry in enumerate(self.designs):
            if entry.label in labels:
                raise refusal(
                    "a name of its own for each entry",
                    got=f"{entry.label} a second time",
                    key=f"designs.{number}.design",
                    hint="Give it a name = ...",
                )
            labels.add(entry.label)
        return self


@dataclass(frozen=True)
class Member:
    """An entry of the suite with its design, which was read and checked."""

    entry: Entry
    design: Design  # with the entry's override
    directory: Path  # the design's own
    digest: str  # of the design's values that may change a result

    @property
    def name(self) -> str:
        """Name in history and site."""
        return self.entry.label

    @property
    def expected_minutes(self) -> float:
        """The duration of a run, by the design alone."""
        experiment = self.design.experiment
        if experiment.kind not in ("compare", "schemes"):
            return UNKNOWN_MINUTES
        load_minutes = load_length_s(experiment) / 60
        halves = 2 if self.entry.close else 1  # the second is at most as long as the first
        return halves * (load_minutes + SET_UP_MINUTES)


@dataclass(frozen=True)
class Suite:
    """A checked suite."""

    path: Path
    file: SuiteFile
    members: tuple[Member, ...]
    gone: Mapping[str, str]  # entries whose design cannot be read (any more), and why

    @property
    def results(self) -> Path:
        return (self.path.parent / self.file.results).resolve()

    @property
    def folder(self) -> Path:
        return (self.path.parent / self.file.folder).resolve()


def load_suite(path: Path) -> Suite:
    """Read and check a suite with all its designs.

    If a design cannot be read but the history has it, the others are run all the same. Raises
    InputError for all other errors.
    """
    if not path.exists():
        raise InputError(
            str(path),
            expected="a suite: which designs a night runs",
            got="no such file",
            hint="Give yours with --suite; ci/nightly/short.toml is one to begin with, and "
            "docs/nightly.md says what stands in it.",
        )
    source = read_toml(path)
    file = check(source, SuiteFile)
    history_entries = read_history(path.parent / file.folder).entries
    members: list[Member] = []
    gone: dict[str, str] = {}
    errors: list[InputError] = []
    for number, entry in enumerate(file.designs):
        try:
            members.append(_member(entry, path.parent))
        except InputError as error:
            if entry.label in history_entries:
                gone[entry.label] = str(error).splitlines()[0]
            else:
                errors.append(_locate_error(source, number, error))
    raise_all(errors)
    if not members:
        raise source.error(
            "designs",
            expected="a design that can be read",
            got="; ".join(gone.values()),
            hint="Bring one back, or name others.",
        )
    return Suite(path.resolve(), file, tuple(members), gone)


def _locate_error(source: ConfigFile, number: int, error: InputError) -> InputError:
    """Return a design's error with the place of that design in the suite."""
    return source.error(
        "designs", number, "design", expected="a design in order", got=str(error), hint=error.hint
    )


def _member(entry: Entry, parent: Path) -> Member:
    directory = parent / entry.design
    design = load_design(directory if directory.is_dir() else entry.design)
    if entry.close:
        kinds.check_plans(design, f"{entry.label}: close")
    digest = digest_of(design.path, entry.override)
    if not entry.override:
        return Member(entry, design, design.path, digest)
    with tempfile.TemporaryDirectory() as folder:  # written again for each run
        changed = load_design(variant(entry, design.path, Path(folder)))
    return Member(entry, changed, design.path, digest)


def variant(entry: Entry, design: Path, into: Path) -> Path:
    """Return the path to run: the design's own, or a copy below `into` with the override."""
    if not entry.override:
        return design
    directory, case = find_design(design)
    copy = into / entry.label
    shutil.rmtree(copy, ignore_errors=True)
    ignored = shutil.ignore_patterns(*_NOT_RUN)
    shutil.copytree(directory, copy, ignore=ignored)
    values = merge(read_experiment(directory, case).values, entry.override)
    text = toml_text(values, f"{design.name}, as the suite has it")
    (copy / "experiment.toml").write_text(text, encoding="utf-8")
    return copy


def digest_of(design: Path, override: Mapping[str, Any]) -> str:
    """Return twelve hex digits of the files of a design that a run reads, with the override.

    The seed of a night does not count. Of TOML, HCL and JSON the values count, not their notation;
    of programs and roles every byte counts. Texts, pictures and editors' files do not count.
    """
    directory, case = find_design(design)
    values = merge(read_experiment(directory, case).values, override)
    fleet = read_tfvars(directory / "fleet.tfvars").values
    digest = hashlib.sha256(_canonical([values, fleet]))
    for file in sorted(directory.rglob("*")):
        relative = file.relative_to(directory)
        if file.is_file() and _is_read(file, relative, values):
            digest.update(str(relative).encode() + b"\0" + _content(file) + b"\0")
    return digest.hexdigest()[:12]


def _is_read(file: Path, relative: Path, values: Mapping[str, Any]) -> bool:
    hidden = any(part.startswith(".") or part.endswith("~") for part in relative.parts)
    if hidden or set(_NOT_RUN) & set(relative.parts):
        return False
    if len(relative.parts) > 1:
        return True
    is_named = f'"{relative.name}"' in toml_text(values, "").replace('"./', '"')
    return file.suffix in (".json", ".py", ".sh") or os.access(file, os.X_OK) or is_named


def _content(file: Path) -> bytes:
    data = file.read_bytes()
    if file.suffix != ".json":
        return data
    try:
        return _canonical(json.loads(data))
    except ValueError:
        return data


def _canonical(values: Any) -> bytes:
    return json.dumps(values, sort_keys=True, default=str).encode()
