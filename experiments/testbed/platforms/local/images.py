"""Images that Sparecraft built on this host's engine, and the unused ones among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.testbed.platforms.local import docker

_LABELS = ("sparecraft.tag", "sparecraft.recipe")  # of the provider, of ci/base-image
_NONE = "<none>"


@dataclass(frozen=True)
class Image:
    """An image of ours that no container uses."""

    id: str
    name: str
    """Repository and tag; empty where a newer build has taken them."""
    made: str
    size: str
    """As Docker prints it, with layers that others share."""
    own_size: str
    """Of its own layers: freed when it is removed."""

    @property
    def superseded(self) -> bool:
        """Tell whether a newer build has taken its name, so that no run can request it."""
        return not self.name

    @property
    def label(self) -> str:
        """Name, or the short id of what has none."""
        return self.name or self.id.removeprefix("sha256:")[:12]


def unused() -> list[Image]:
    """Our images without a container, running or not; those without a name first.

    A parent of another image goes after it, so that each can be removed in this order: the engine
    lists the newest first.
    """
    ours = {
        one
        for label in _LABELS
        for one in docker.run(
            "image", "ls", "--quiet", "--no-trunc", "--filter", f"label={label}"
        ).split()
    }
    found = read(docker.run("system", "df", "--verbose", "--format", "{{json .Images}}"), ours)
    return sorted(found, key=lambda one: not one.superseded)


def read(text: str, ours: set[str]) -> Sequence[Image]:
    """Unused images among the rows of `docker system df`.

    Parameters: text, JSON; ours, identifiers of what Sparecraft built.
    """
    return [
        Image(
            id=row["ID"],
            name="" if _NONE in (row["Repository"], row["Tag"])
            else f"{row['Repository']}:{row['Tag']}",
            made=row["CreatedAt"].partition(" +")[0],
            size=row["Size"],
            own_size=row["UniqueSize"],
        )
        for row in json.loads(text)
        if row["ID"] in ours and row["Containers"] == "0"
    ]  # fmt: skip


def remove(image: Image) -> None:
    """Remove one; an image that a container has meanwhile stays, and the engine says so."""
    docker.run("image", "rm", image.name or image.id)
