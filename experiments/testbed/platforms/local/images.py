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


def find_unused() -> list[Image]:
    """Return our images without a container, running or not; those without a name first.

    They can be removed in this order, because an image comes before its parent: the engine lists
    the newest first.
    """
    own_ids = {
        identifier
        for label in _LABELS
        for identifier in docker.run(
            "image", "ls", "--quiet", "--no-trunc", "--filter", f"label={label}"
        ).split()
    }
    images = read(docker.run("system", "df", "--verbose", "--format", "{{json .Images}}"), own_ids)
    return sorted(images, key=lambda image: not image.superseded)


def read(text: str, own_ids: set[str]) -> Sequence[Image]:
    """Return the unused images among the rows of `docker system df`.

    Parameters: text, JSON; own_ids, identifiers of images that Sparecraft built.
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
        if row["ID"] in own_ids and row["Containers"] == "0"
    ]  # fmt: skip


def remove(image: Image) -> None:
    """Remove an image. If a container uses it meanwhile, it stays, and the engine says so."""
    docker.run("image", "rm", image.name or image.id)
