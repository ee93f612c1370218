"""A role on a stock image: role.json is enough, and says what the image does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from experiments.design.roles import Role, find_roles

HTTP: dict[str, Any] = {"summary": "a service", "protocol": "http", "port": 80}


def found(tmp_path: Path, **keys: Any) -> Role:
    folder = tmp_path / "roles" / "shop"
    (folder / "context").mkdir(parents=True, exist_ok=True)
    (folder / "role.json").write_text(json.dumps({**HTTP, **keys}))
    return find_roles(tmp_path)["shop"]


def refused(tmp_path: Path, **keys: Any) -> str:
    with pytest.raises(InputError) as error:
        found(tmp_path, **keys)
    return error.value.place.rpartition(": ")[2]


def test_an_image_alone_is_a_role(tmp_path: Path) -> None:
    assert found(tmp_path, image="shop:1").is_stock


def test_a_context_with_a_dockerfile_is_one_too(tmp_path: Path) -> None:
    assert refused(tmp_path, context={}) == "context.dockerfile"
    (tmp_path / "roles/shop/context/Dockerfile").write_text("FROM scratch\n")
    assert found(tmp_path, context={}).is_stock


def test_a_role_without_a_stock_image_still_brings_its_scripts(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        found(tmp_path)
    assert len([error.value, *error.value.also]) == 2


@pytest.mark.parametrize(
    ("told", "key"),
    [
        ({"image": "a", "context": {}}, "context"),
        ({"image": "a", "image_of": "redis"}, "image_of"),
        ({"image": "nginx\nRUN touch /x"}, "image"),
        ({"process": {"command": ["x"]}}, "process"),
        ({"image": "a", "process": {"comand": ["x"]}}, "process.comand"),
        ({"image": "a", "process": {"user": "me; rm"}}, "process.user"),
        ({"image": "a", "process": {"workdir": "srv"}}, "process.workdir"),
        ({"environment": {"a.b": "1"}}, "environment"),
        ({"promotion": {"role": "etcd", "state": "copied", "takes_s": 9}}, "promotion.role"),
        ({"promotion": {"role": "etcd", "state": "copied", "takes_s": 0}}, "promotion.takes_s"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(
    tmp_path: Path, told: dict[str, Any], key: str
) -> None:
    assert refused(tmp_path, **told) == key


def test_a_program_of_an_image_may_take_names_that_no_shell_does(tmp_path: Path) -> None:
    environment = {"discovery.type": "single-node"}
    assert found(tmp_path, image="a", environment=environment).environment == environment
