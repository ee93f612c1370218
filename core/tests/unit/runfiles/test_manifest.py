"""The specification in a manifest."""

from __future__ import annotations

from core.runfiles.manifest import spec_of


def test_a_manifest_without_a_specification_has_an_empty_one() -> None:
    assert spec_of({}) == {}
    assert spec_of({"spec": {"arms": {}}}) == {"arms": {}}
