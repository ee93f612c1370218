"""A Compose file that names others: `extends`, `include`, an override, and the rules of merging."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from experiments.importers.compose import Imported, import_compose
from experiments.importers.compose.files import DEPTH_MAX, FILES_MAX, read_project

Files = Mapping[str, str]
Import = Callable[..., Imported]
Project = Callable[[Files], Path]

BASE = """\
services:
  base:
    build: { context: ./app, args: [A=1, B=2] }
    command: serve --all
    environment: [WHO=base, KEPT=yes]
    env_file: base.env
    ports: ["8000"]
    volumes: ["./conf:/etc/app", "data:/var/lib/app"]
    depends_on: [db]
    deploy: { replicas: 3, resources: { limits: { cpus: "0.25", memory: 100M } } }
    healthcheck: { test: ["CMD", "true"], retries: 5 }
"""
WEB = """\
services:
  web:
    extends: { file: shared/common.yaml, service: base }
    build: { args: { B: "3" } }
    command: ["serve"]
    environment: { WHO: web, SHELL_S: }
    env_file: [web.env]
    ports: ["8000", "9000"]
    volumes: ["./mine:/etc/app"]
    depends_on: { cache: { condition: service_healthy } }
    deploy: { resources: { limits: { cpus: "0.5" } } }
  db: { image: postgres }
  cache: { image: memcached }
volumes:
  data:
"""


def merged(project: Project, files: Files, **values: str) -> dict[str, Any]:
    """The values of a project, all files merged."""
    return read_project(project(files), [], values).source.values


def refused(project: Project, compose: str, files: Files | None = None) -> str:
    """The place of what is refused, from the project's folder."""
    file = project({"compose.yaml": compose, **(files or {})})
    with pytest.raises(InputError) as error:
        read_project(file, [], {})
    return error.value.place.removeprefix(f"{file.parent}/")


def test_a_service_is_merged_into_the_one_that_it_extends(project: Project) -> None:
    values = merged(project, {"compose.yaml": WEB, "shared/common.yaml": BASE})
    assert values["services"]["web"] == {
        "build": {"context": "./shared/app", "args": {"A": "1", "B": "3"}},
        "command": ["serve"],
        "environment": {"WHO": "web", "KEPT": "yes", "SHELL_S": None},
        "env_file": ["./shared/base.env", "web.env"],
        "ports": ["8000", "9000"],
        "volumes": ["./mine:/etc/app", "data:/var/lib/app"],
        "depends_on": {
            "db": {"condition": "service_started"},
            "cache": {"condition": "service_healthy"},
        },
        "deploy": {"replicas": 3, "resources": {"limits": {"cpus": "0.5", "memory": "100M"}}},
        "healthcheck": {"test": ["CMD", "true"], "retries": 5},
    }


def test_extended_services_become_tiers_with_files_of_their_own_folder(imported: Import) -> None:
    files = {
        "shared/common.yaml": BASE,
        "shared/app/Dockerfile": "FROM shop\n",
        "shared/base.env": "FROM_BASE=1\nWHO=file\n",
        "web.env": "FROM_WEB=1\n",
        "mine/app.conf": "mine",
        "shared/conf/app.conf": "base",
    }
    design = imported(WEB, files)
    role = design.folder / "roles/web"
    role_json = json.loads((role / "role.json").read_text())
    assert role_json["environment"] == {
        "FROM_BASE": "1",
        "WHO": "web",
        "FROM_WEB": "1",
        "KEPT": "yes",
    }
    assert (role / "context/Dockerfile").read_text() == "FROM shop\n"
    assert (role / "root/etc/app/app.conf").read_text() == "mine"
    assert [tier.name for tier in design.tiers] == ["web", "db", "cache"]
    assert set(design.tiers[0].calls) == {"cache", "db"}


def test_a_chain_of_services_in_one_file_is_followed(project: Project) -> None:
    compose = (
        "services:\n"
        "  a: { extends: b, environment: { A: 1 } }\n"
        "  b: { extends: { service: c }, environment: [B=1], image: two }\n"
        "  c: { image: one, environment: { A: 0, C: 1 } }\n"
    )
    services = merged(project, {"compose.yaml": compose})["services"]
    assert services["a"] == {"image": "two", "environment": {"A": 1, "B": "1", "C": 1}}


def test_a_part_of_another_file_is_refused_at_its_place_there(imported: Import) -> None:
    base = "services:\n  base:\n    image: nginx\n    mem_limit: much\n"
    compose = "services:\n  web:\n    extends: { file: sub/base.yaml, service: base }\n"
    with pytest.raises(InputError) as error:
        imported(compose, {"sub/base.yaml": base})
    assert error.value.place.endswith("/project/sub/base.yaml:4: services.web.mem_limit")


INCLUDED = """\
services:
  store:
    image: redis:${TAG}
    env_file: store.env
    environment: [NAME]
    volumes: ["./conf:/etc/store"]
configs:
  motd: { file: ./motd }
"""


def test_an_included_project_has_its_own_folder_and_variables(imported: Import) -> None:
    design = imported(
        "include: [sub/compose.yaml]\n"
        "services:\n  web: { image: 'nginx:${TAG}', depends_on: [store] }\n",
        {
            "sub/compose.yaml": INCLUDED,
            "sub/.env": "TAG=6\nNAME=inner\n",
            "sub/store.env": "FROM_FILE=${NAME}\n",
            "sub/conf/redis.conf": "save no",
            "sub/motd": "hi",
            ".env": "TAG=7\n",
        },
    )
    store = design.folder / "roles/store"
    role_json = json.loads((store / "role.json").read_text())
    assert role_json["image"] == "redis:7"  # the includer's own variables win
    assert role_json["environment"] == {"FROM_FILE": "inner", "NAME": "inner"}
    assert (store / "root/etc/store/redis.conf").read_text() == "save no"
    assert design.entries == ("web",)


def test_an_entry_of_include_says_its_files_folder_and_variables(project: Project) -> None:
    compose = (
        "include:\n"
        "  - path: [sub/a.yaml, sub/b.yaml]\n"
        "    env_file: [one.env, two.env]\n"
        "    project_directory: other\n"
    )
    files = {
        "compose.yaml": compose,
        "sub/a.yaml": "services:\n  x: { image: 'i:${N}', build: ., labels: [a=1] }\n",
        "sub/b.yaml": "services:\n  x: { labels: { b: '2' }, build: { target: t } }\n",
        "one.env": "N=1\n",
        "two.env": "N=2\n",
    }
    service = merged(project, files)["services"]["x"]
    assert service == {
        "image": "i:2",
        "build": {"context": "./other", "target": "t"},
        "labels": {"a": "1", "b": "2"},
    }


def test_a_service_may_extend_an_included_one_and_one_may_be_included_twice(
    project: Project,
) -> None:
    files = {
        "compose.yaml": "include: [a.yaml, b.yaml]\nservices:\n  web: { extends: low, user: me }\n",
        "a.yaml": "include: [low.yaml]\n",
        "b.yaml": "include: [low.yaml]\n",
        "low.yaml": "services:\n  low: { image: nginx }\n",
    }
    services = merged(project, files)["services"]
    assert services == {"low": {"image": "nginx"}, "web": {"image": "nginx", "user": "me"}}


def test_a_folder_has_its_override_merged_and_a_file_has_none(
    project: Project, tmp_path: Path
) -> None:
    files = {
        "compose.yaml": "services:\n  web: { image: nginx }\n",
        "compose.override.yaml": "services:\n  web: { deploy: { replicas: 2 } }\n",
    }
    file = project(files)
    for name, source, nodes in (("one", file.parent, 2), ("other", file, 1)):
        design = import_compose(source, tmp_path / name, name, lambda _: None, {})
        assert design.tiers[0].nodes == nodes


def test_a_file_outside_of_the_project_is_read_and_said(imported: Import, tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common/base.yaml").write_text("services:\n  base: { image: nginx }\n")
    design = imported(
        "services:\n  web:\n    extends: { file: ../common/base.yaml, service: base }\n"
    )
    assert [
        why for place, why in design.unhonoured if place.endswith("3: services.web.extends")
    ] == ["../common/base.yaml is read, though it lies outside of the project's folder"]
    assert 'experiment = "tst-design"' in (design.folder / "fleet.tfvars").read_text()


def chain(count: int, *, turned: bool) -> str:
    """`count` services, each of which extends another."""
    names = [f"  s{n}: {{ extends: s{n + 1} }}\n" for n in range(count)]
    services = [*names, f"  s{count}: {{ image: nginx }}\n"]
    return f"services:\n{''.join(reversed(services) if turned else services)}"


def including(count: int) -> dict[str, str]:
    """Files of which each includes the next."""
    files = {f"f{n}.yaml": f"include: [f{n + 1}.yaml]\n" for n in range(count)}
    return {**files, f"f{count}.yaml": "services:\n  a: { image: nginx }\n"}


@pytest.mark.parametrize("turned", [False, True])
def test_services_extend_each_other_up_to_a_depth(project: Project, turned: bool) -> None:
    values = merged(project, {"compose.yaml": chain(DEPTH_MAX, turned=turned)})
    assert values["services"]["s0"] == {"image": "nginx"}
    place = refused(project, chain(DEPTH_MAX + 1, turned=turned))
    assert place.endswith(".extends")


def test_files_include_each_other_up_to_a_depth(project: Project) -> None:
    top = "include: [f0.yaml]\n"
    values = merged(project, {"compose.yaml": top, **including(DEPTH_MAX - 1)})
    assert list(values["services"]) == ["a"]
    place = refused(project, top, including(DEPTH_MAX))
    assert place == f"f{DEPTH_MAX - 1}.yaml:1: include"


SUB = {"sub/base.yaml": "services:\n  base: { image: nginx }\n"}
EXTENDS = "services:\n  a:\n    extends: {}\n"
WRONG: list[tuple[str, str, Files]] = [
    ("compose.yaml:3: services.a.extends", EXTENDS.format("a"), {}),
    (
        "compose.yaml:4: services.b.extends",
        "services:\n  a: { extends: b }\n  #\n  b: { extends: a }\n",
        {},
    ),
    (
        "other.yaml:2: services.b.extends",
        EXTENDS.format("{ file: other.yaml, service: b }"),
        {"other.yaml": "services:\n  b: { extends: { file: compose.yaml, service: a } }\n"},
    ),
    ("compose.yaml:3: services.a.extends", EXTENDS.format("nobody"), {}),
    ("compose.yaml:3: services.a.extends", EXTENDS.format("{ file: absent, service: b }"), {}),
    ("compose.yaml:3: services.a.extends", EXTENDS.format("{ file: sub, service: b }"), SUB),
    (
        "compose.yaml:3: services.a.extends",
        EXTENDS.format("{ file: sub/base.yaml, service: other }"),
        SUB,
    ),
    (
        "compose.yaml:3: services.a.extends",
        EXTENDS.format("{ file: 'https://example.org/x.yaml', service: b }"),
        {},
    ),
    ("compose.yaml:3: services.a.extends", EXTENDS.format("{ file: sub/base.yaml }"), SUB),
    ("compose.yaml:1: include", "include: [compose.yaml]\n", {}),
    ("other.yaml:1: include", "include: [other.yaml]\n", {"other.yaml": "include: [compose.yaml]"}),
    ("compose.yaml:1: include", "include: [absent.yaml]\n", {}),
    ("compose.yaml:1: include", "include: ['oci://example.org/x']\n", {}),
    ("compose.yaml:2: include", "include:\n  - { path: [], env_file: x }\n", {}),
    ("compose.yaml:1: include", "include: [{ path: sub/base.yaml, env_file: absent.env }]\n", SUB),
    (
        "compose.yaml:3: services.base",
        "include: [sub/base.yaml]\nservices:\n  base: { image: httpd }\n",
        SUB,
    ),
]


@pytest.mark.parametrize(("place", "compose", "files"), WRONG)
def test_files_that_cannot_be_merged_are_refused_with_the_place(
    project: Project, place: str, compose: str, files: Files
) -> None:
    assert refused(project, compose, files) == place


def test_more_files_than_there_may_be_are_refused(project: Project) -> None:
    paths = ", ".join(["sub/base.yaml"] * FILES_MAX)
    assert refused(project, f"include: [{paths}]\n", SUB) == "compose.yaml:1: include"


def test_services_that_grow_by_what_they_extend_are_refused(project: Project) -> None:
    large = ", ".join(f"'{n}'" for n in range(5000))
    services = "".join(f"  s{n}: {{ extends: base }}\n" for n in range(20))
    compose = f"services:\n  base: {{ image: nginx, cap_add: [{large}] }}\n{services}"
    assert refused(project, compose).endswith(".extends")
