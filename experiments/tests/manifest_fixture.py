"""The manifest of a run that is made up. For tests only; nothing here measures anything."""

from __future__ import annotations

from typing import Any

VERDICTS: dict[str, Any] = {
    name: {"ok": True, "reasons": []} for name in ("measurement", "injection", "revert", "cleanup")
}


def made_manifest(name: str, **more: Any) -> dict[str, Any]:
    """A run of the design `name` in which all went well; `more` as its `spec`."""
    return {"experiment": name, "run": "20261124T000000Z", "platform": "local", "seed": 1,
            "started_at": "2026-11-24T00:00:00+00:00", "verdicts": VERDICTS,
            "command": ["sparecraft", "run", name], **more}  # fmt: skip
