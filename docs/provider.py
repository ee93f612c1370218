"""The Terraform provider's reference, from the schema that it gives Terraform."""

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
    """Return the schema of the provider that `make build` installed.

    Raises: subprocess.CalledProcessError if there is none.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "main.tf").write_text(_CONFIGURATION, encoding="utf-8")
        for command in (["init", "-input=false"], ["providers", "schema", "-json"]):
            output = subprocess.run(
                ["terraform", f"-chdir={folder}", *command],
                stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_LIMIT_S,
            )  # fmt: skip
    (provider,) = json.loads(output.stdout)["provider_schemas"].values()
    return dict(provider)


def provider_parts(table: Table) -> Iterator[str]:
    """Yield an introduction, then sections for the provider, each resource and each data source."""
    provider = schema()
    yield (
        "`make build` installs it where `terraform init` finds it without a registry. How it "
        "behaves: [infra/README.md](../../infra/README.md#resources)."
    )
    yield from _section(table, 'provider "fleet"', provider["provider"]["block"])
    for name, resource in sorted(provider["resource_schemas"].items()):
        yield from _section(table, f'resource "{name}"', resource["block"])
    for name, resource in sorted(provider["data_source_schemas"].items()):
        yield from _section(table, f'data "{name}"', resource["block"])


def _section(table: Table, heading: str, block: Block) -> Iterator[str]:
    yield f"## `{heading}`\n\n{block['description']}\n"
    yield table(_HEAD, list(_rows("", block["attributes"])))


def _rows(before: str, attributes: Mapping[str, Block]) -> Iterator[tuple[str, ...]]:
    """Yield a row per attribute: required ones first, then optional, then read-only ones."""
    for name, attribute in sorted(attributes.items(), key=lambda item: (_rank(item[1]), item[0])):
        yield (
            f"`{before}{name}`",
            _type(attribute),
            _need(attribute),
            attribute.get("description", ""),
        )
        if "nested_type" in attribute:
            inner = attribute["nested_type"]
            step = {"single": ".", "list": "[].", "set": "[].", "map": ".NAME."}
            yield from _rows(f"{before}{name}{step[inner['nesting_mode']]}", inner["attributes"])


def _rank(attribute: Block) -> int:
    return 0 if attribute.get("required") else 1 if attribute.get("optional") else 2


def _need(attribute: Block) -> str:
    terms = [("required", "optional", "computed")[_rank(attribute)]]
    return ", ".join([*terms, "sensitive"] if attribute.get("sensitive") else terms)


def _type(attribute: Block) -> str:
    if "nested_type" not in attribute:
        return _describe_type(attribute["type"])
    mode = attribute["nested_type"]["nesting_mode"]
    return "object" if mode == "single" else f"{mode} of objects"


def _describe_type(kind: str | Sequence[Any]) -> str:
    """Describe a type: ["map", ["list", "string"]] is a "map of lists of string"."""
    if isinstance(kind, str):
        return kind
    inner = _describe_type(kind[1])
    return f"{kind[0]} of {inner if isinstance(kind[1], str) else inner.replace(' ', 's ', 1)}"
