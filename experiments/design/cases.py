"""Cases: further designs of one folder: the same fleet, and an experiment with other values.

    [[cases]]
    name = "shop-night"
    load.rate_per_s = 2.0

A case is called by its own name, as if it had a folder beside this one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from core.config_file import ConfigFile, Strict, check, parse_toml, read_text, read_toml
from core.errors import InputError
from core.json_object import JsonObject
from experiments.design.fleet import Name

FILE = "experiment.toml"
_CASES, _ARMS = "cases", "arms"


class Case(Strict):
    """`[[cases]]`: a further design of this folder. Its tables are put over the folder's, key by
    key; its `arms`, and every other value, take the place of what is there."""

    model_config = ConfigDict(extra="allow")
    name: Name
    """The name of the design and of its fleet."""
    without: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Keys of the folder's that it has not, such as `load.utilisation`."""


def names_in(root: Path) -> tuple[str, ...]:
    """Return the names of the designs in the folders below `root`, and of their cases."""
    files = list(root.glob(f"*/{FILE}"))
    cases = (name for file in files for name in _find_case_names(file))
    return tuple(sorted([*(file.parent.name for file in files), *cases]))


def folder_of(name: str, root: Path) -> Path | None:
    """Return the folder below `root` that has the case of this name; None if there is none."""
    folders = (
        path.parent for path in sorted(root.glob(f"*/{FILE}")) if name in _find_case_names(path)
    )
    return next(folders, None)


def read_experiment(directory: Path, case: str | None) -> ConfigFile:
    """Return the experiment of a design's folder, or that of its case. Raises InputError."""
    toml = read_toml(directory / FILE)
    values = copy.deepcopy({key: value for key, value in toml.values.items() if key != _CASES})
    cases = toml.values.get(_CASES, [])
    for number, case_table in enumerate(cases if isinstance(cases, list) else []):
        source = toml.part(case_table, _CASES, number)
        if case is not None and (case_read := check(source, Case)).name == case:
            changes = case_read.model_extra or {}
            for key in (*case_read.without, *({_ARMS} & changes.keys() & values.keys())):
                if not _drop(values, key.split(".")):
                    expected = "keys of what stands above all cases"
                    raise source.error("without", expected=expected, got=key)
            return toml.over((_CASES, number), merge(values, changes))
    return toml.having(values)


def _drop(values: JsonObject, path: Sequence[str]) -> bool:
    """Remove a key; return False if it does not exist."""
    for key in path[:-1]:
        values = values.get(key) or {}
    return values.pop(path[-1], None) is not None


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> JsonObject:
    """Return `below` with `above` put over it: tables are merged, other values replaced."""
    values = copy.deepcopy(dict(below))
    for key, value in above.items():
        existing = values.get(key)
        are_tables = isinstance(existing, dict) and isinstance(value, Mapping)
        values[key] = (
            merge(existing, value) if are_tables and existing is not None else copy.deepcopy(value)
        )
    return values


def _find_case_names(path: Path) -> tuple[str, ...]:
    """Return the names of a file's cases; none of a broken file: `load_design` shows its errors."""
    try:
        return _parse_case_names(read_text(path), path)
    except (InputError, KeyError, TypeError):
        return ()


@lru_cache(maxsize=256)
def _parse_case_names(text: str, path: Path) -> tuple[str, ...]:
    """Return the names of the cases in a text. The cache helps the search for a design by name,
    which goes through all files.
    """
    return tuple(str(case["name"]) for case in parse_toml(text, path).values.get(_CASES, []))
