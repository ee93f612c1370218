"""Cases: further designs of one folder, each its experiment with other values on the same fleet.

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
    """Names of the designs in the folders of this one, and of their cases."""
    files = list(root.glob(f"*/{FILE}"))
    cases = (name for file in files for name in _names(file))
    return tuple(sorted([*(file.parent.name for file in files), *cases]))


def folder_of(name: str, root: Path) -> Path | None:
    """The folder below `root` that has the case of this name; None where none has."""
    found = (path.parent for path in sorted(root.glob(f"*/{FILE}")) if name in _names(path))
    return next(found, None)


def read_experiment(directory: Path, case: str | None) -> ConfigFile:
    """The experiment of a design's folder, as it is or as this case has it. Raises InputError."""
    toml = read_toml(directory / FILE)
    values = copy.deepcopy({key: value for key, value in toml.values.items() if key != _CASES})
    listed = toml.values.get(_CASES, [])
    for number, one in enumerate(listed if isinstance(listed, list) else []):
        source = toml.part(one, _CASES, number)
        if case is not None and (asked := check(source, Case)).name == case:
            more = asked.model_extra or {}
            for key in (*asked.without, *({_ARMS} & more.keys() & values.keys())):
                if not _drop(values, key.split(".")):
                    expected = "keys of what stands above all cases"
                    raise source.error("without", expected=expected, got=key)
            return toml.over((_CASES, number), merged(values, more))
    return toml.having(values)


def _drop(values: JsonObject, path: Sequence[str]) -> bool:
    """Take a key out; False where it is not there."""
    for key in path[:-1]:
        values = values.get(key) or {}
    return values.pop(path[-1], None) is not None


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> JsonObject:
    """`above` over `below`; tables are merged, everything else takes the place of what was."""
    values = copy.deepcopy(dict(below))
    for key, value in above.items():
        old = values.get(key)
        both = isinstance(old, dict) and isinstance(value, Mapping)
        values[key] = merged(old, value) if both and old is not None else copy.deepcopy(value)
    return values


def _names(path: Path) -> tuple[str, ...]:
    """Of a file that cannot be read none: who loads its design is told."""
    try:
        return _names_in(read_text(path), path)
    except (InputError, KeyError, TypeError):
        return ()


@lru_cache(maxsize=256)
def _names_in(text: str, path: Path) -> tuple[str, ...]:
    """Parsed once for each text: a design that is asked for by name is looked for in all files."""
    return tuple(str(one["name"]) for one in parse_toml(text, path).values.get(_CASES, []))
