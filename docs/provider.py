"""The Terraform provider's reference, from the schema that it tells Terraform."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_SOURCE = "sparecraft/fleet"
_CONFIGURATION = f'''terraform {{
  required_providers {{
    fleet = {{ source = "{_SOURCE}" }}
  }}
}}
'''
_LIMIT_S = 120.0
_HEAD = ("argument", "takes", "", "meaning")
Table = Callable[[tuple[str, ...], Sequence[tuple[str, ...]]], str]
Block = Mapping[str, Any]


def schema() -> Mapping[str, Any]:
    """Output of `terraform providers schema -json` for the provider that `make build` installed.

    Raises: subprocess.CalledProcessError where there is none.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "main.tf").write_text(_CONFIGURATION, encoding="utf-8")
        for command in (["init", "-input=false"], ["providers", "schema", "-json"]):
            said = subprocess.run(
                ["terraform", f"-chdir={folder}", *command],
                stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_LIMIT_S,
            )  # fmt: skip
    (found,) = json.loads(said.stdout)["provider_schemas"].values()
    return dict(found)


def provider_parts(table: Table) -> Iterator[str]:
    """Yield an introduction, then a section for the provider's block, each resource and data
    source.
    """
    found = schema()
    yield (
        "`make build` installs it where `terraform init` finds it without a registry. How it "
        "behaves: [infra/README.md](../../infra/README.md#resources)."
    )
    yield from _section(table, 'provider "fleet"', found["provider"]["block"])
    for name, one in sorted(found["resource_schemas"].items()):
        yield from _section(table, f'resource "{name}"', one["block"])
    for name, one in sorted(found["data_source_schemas"].items()):
        yield from _section(table, f'data "{name}"', one["block"])


def _section(table: Table, heading: str, block: Block) -> Iterator[str]:
    yield f"## `{heading}`\n\n{block['description']}\n"
    yield table(_HEAD, list(_rows("", block["attributes"])))


def _rows(before: str, attributes: Mapping[str, Block]) -> Iterator[tuple[str, ...]]:
    """Required attributes first, then optional ones, then those that are read."""
    for name, one in sorted(attributes.items(), key=lambda item: (_rank(item[1]), item[0])):
        yield f"`{before}{name}`", _type(one), _need(one), one.get("description", "")
        if "nested_type" in one:
            inner = one["nested_type"]
            step = {"single": ".", "list": "[].", "set": "[].", "map": ".NAME."}
            yield from _rows(f"{before}{name}{step[inner['nesting_mode']]}", inner["attributes"])


def _rank(one: Block) -> int:
    return 0 if one.get("required") else 1 if one.get("optional") else 2


def _need(one: Block) -> str:
    words = [("required", "optional", "computed")[_rank(one)]]
    return ", ".join([*words, "sensitive"] if one.get("sensitive") else words)


def _type(one: Block) -> str:
    if "nested_type" not in one:
        return _words(one["type"])
    mode = one["nested_type"]["nesting_mode"]
    return "object" if mode == "single" else f"{mode} of objects"


def _words(kind: str | Sequence[Any]) -> str:
    """["map", ["list", "string"]] is a map of lists of string."""
    if isinstance(kind, str):
        return kind
    inner = _words(kind[1])
    return f"{kind[0]} of {inner if isinstance(kind[1], str) else inner.replace(' ', 's ', 1)}"
