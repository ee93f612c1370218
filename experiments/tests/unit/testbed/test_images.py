"""Images that nothing uses: whose they are, and in which order they can go."""

from __future__ import annotations

import json

import pytest

from experiments.testbed.platforms.local import docker, images


def _row(number: int, tag: str, containers: str = "0") -> dict[str, str]:
    return {
        "ID": f"sha256:{number:064}",
        "Repository": "sparecraft/shop" if tag != "<none>" else "<none>",
        "Tag": tag,
        "CreatedAt": "2026-11-28 20:50:42 +0000 UTC",
        "Size": "545MB",
        "UniqueSize": "93.26MB",
        "Containers": containers,
    }


ROWS = [_row(1, "local"), _row(2, "<none>"), _row(3, "local", "1"), _row(4, "latest")]


def test_only_our_images_without_a_container_are_unused() -> None:
    ours = {f"sha256:{number:064}" for number in (1, 2, 3)}
    found = images.read(json.dumps(ROWS), ours)
    assert [(one.name, one.superseded) for one in found] == [
        ("sparecraft/shop:local", False),
        ("", True),
    ]
    assert {(one.size, one.own_size) for one in found} == {("545MB", "93.26MB")}


def test_what_a_newer_build_has_replaced_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: str) -> str:
        if arguments[0] == "system":
            return json.dumps(ROWS)
        return "\n".join(row["ID"] for row in ROWS)

    monkeypatch.setattr(docker, "run", run)
    assert [one.name for one in images.unused()] == [
        "",
        "sparecraft/shop:local",
        "sparecraft/shop:latest",
    ]
