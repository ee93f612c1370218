"""A Compose file becomes a design: tiers, roles, calls, and a list of what has no effect."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hcl2
import pytest

from core.errors import InputError
from experiments.commands.check import check_design
from experiments.design import load_design
from experiments.design.fleet import Fleet
from experiments.design.roles import find_roles
from experiments.importers.compose import Answer, Imported, import_compose
from experiments.importers.compose.contents import FILE_BYTES_MAX

Import = Callable[..., Imported]
WEB = {"web/Dockerfile": "FROM shop\nEXPOSE 8000\n"}
SHOP = """\
services:
  web:
    build: ./web
    depends_on: [db]
  db:
    image: postgres:16
    volumes: [data:/var/lib/postgresql/data]
volumes:
  data:
"""


def role(design: Imported, tier: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((design.folder / "roles" / tier / "role.json").read_text())
    return values


def fleet(design: Imported) -> dict[str, Any]:
    options = hcl2.SerializationOptions(with_comments=False, strip_string_quotes=True)
    values: dict[str, Any] = hcl2.loads(
        (design.folder / "fleet.tfvars").read_text(), serialization_options=options
    )
    return values


def places(design: Imported) -> list[str]:
    return [place.rpartition("compose.yaml:")[2] for place, _ in design.unhonoured]


def refused(
    imported: Import, compose: str, files: Mapping[str, str] | None = None, **options: Any
) -> str:
    with pytest.raises(InputError) as error:
        imported(compose, files, **options)
    return error.value.place.rpartition("compose.yaml:")[2]


def test_services_are_tiers_that_call_each_other(imported: Import) -> None:
    design = imported(SHOP, WEB)
    assert design.to_json()["tiers"] == {
        "web": {"service": "web", "protocol": "http", "port": 8000, "state": "none", "nodes": 1,
                "arbiter": True, "calls": ["db"]},
        "db": {"service": "db", "protocol": "tcp", "port": 5432, "state": "own", "nodes": 1,
               "arbiter": True, "calls": []},
    }  # fmt: skip
    assert design.entries == ("web",)


def test_the_roles_and_the_fleet_are_what_sparecraft_reads(imported: Import) -> None:
    design = imported(SHOP, WEB)
    assert {"web", "db"} <= set(find_roles(design.folder))
    fleet_model = Fleet.model_validate(fleet(design))
    assert (fleet_model.tiers["web"].calls, fleet_model.entry_tiers) == (("db",), ("web",))
    assert (design.folder / "roles/web/context/Dockerfile").read_text() == WEB["web/Dockerfile"]


@pytest.mark.parametrize(
    ("compose", "protocol"),
    [
        (SHOP, "http"),
        ("services:\n  a: { image: nginx, scale: 2 }\n  b: { image: httpd }\n", "http"),
        ("services:\n  cache: { image: memcached }\n", "memcached"),
        ("services:\n  cache: { image: redis }\n", "redis"),
    ],
)
def test_check_finds_nothing_wrong_with_the_design(
    imported: Import, compose: str, protocol: str
) -> None:
    result = imported(compose, WEB)
    design = check_design(load_design(result.folder))
    assert design.roles[design.fleet.entry_tier].protocol == protocol
    assert design.fleet.entry_tiers == result.entries


def test_what_a_service_runs_stays_its_images_unless_the_file_says_so(imported: Import) -> None:
    design = imported(
        """\
services:
  web:
    image: nginx:1.27
    entrypoint: ["/entry"]
    command: serve --port 80 'two words'
    user: "33:33"
    working_dir: /srv
    restart: always
    healthcheck:
      { test: curl -f http://localhost/health, interval: 10s, retries: 6, start_period: 1m }
  plain:
    image: httpd
    healthcheck: { disable: true }
"""
    )
    values = role(design, "web")
    assert values["image"] == "nginx:1.27"
    assert values["process"] == {
        "entrypoint": ["/entry"],
        "command": ["serve", "--port", "80", "two words"],
        "user": "33:33",
        "workdir": "/srv",
        "healthcheck": ["/bin/sh", "-c", "curl -f http://localhost/health"],
        "restart": True,
    }
    assert values["ready"] == {"timeout_s": 120.0}
    assert role(design, "plain")["process"] == {"healthcheck": []}


def test_environment_comes_from_files_variables_and_the_service_in_this_order(
    imported: Import,
) -> None:
    design = imported(
        """\
services:
  web:
    image: nginx:${TAG:-latest}
    env_file: [common.env, { path: absent.env, required: false }]
    environment:
      WHO: ${WHO}
      FLAG: true
      discovery.type: single-node
      FROM_SHELL:
""",
        {"common.env": "WHO=file\nCOLOUR=red\n", ".env": "WHO=dotenv\nTAG=3\n"},
        environment={"FROM_SHELL": "yes", "TAG": "4"},
    )
    assert role(design, "web")["image"] == "nginx:4"
    assert role(design, "web")["environment"] == {"WHO": "dotenv", "COLOUR": "red", "FLAG": "true",
                                                  "discovery.type": "single-node",
                                                  "FROM_SHELL": "yes"}  # fmt: skip


def test_limits_and_replicas_are_the_tier_s(imported: Import) -> None:
    design = imported(
        """\
services:
  web:
    image: nginx
    deploy: { replicas: 3, resources: { limits: { cpus: "0.25", memory: 256M } } }
  small: { image: httpd, cpus: 0.01, mem_limit: 8m }
"""
    )
    tiers = fleet(design)["tiers"]
    web = tiers["web"]
    assert (web["nodes"], web["cpus"], web["memory_mb"]) == (3, 0.25, 268)
    assert (tiers["small"]["cpus"], tiers["small"]["memory_mb"]) == (0.1, 64)
    assert "5: services.small" in places(design)
    assert "replicated" in (design.folder / "experiment.toml").read_text()


def test_a_service_is_found_by_its_names_and_waited_for_where_it_must_be_healthy(
    imported: Import,
) -> None:
    design = imported(
        """\
services:
  web:
    image: nginx
    depends_on: { my_db: { condition: service_healthy } }
    links: ["my_db:sql"]
    networks: [back]
  my_db:
    image: mariadb
    container_name: the-db
    networks: { back: { aliases: [store] } }
networks:
  back:
"""
    )
    assert role(design, "web")["calls"] == [
        {
            "roles": ["my-db"],
            "required": True,
            "environment": {
                "CALLED_NAMES_1": "{hosts} my_db the-db store sql",
                "CALLED_FIRST_1": "{hosts}",
            },
        }
    ]


@pytest.mark.parametrize(
    ("told", "files"),
    [
        ("environment: { STORE_HOST: db }", {}),
        ("environment: { URL: 'postgres://me:pw@db:5432/shop' }", {}),
        ("command: --store db:5432", {}),
        ("volumes: ['./conf:/etc/conf']", {"conf/app.conf": "connect = tcp://db:5432;\n"}),
        ("labels: { a: b }", {}),  # nobody names it: who speaks HTTP and reaches it, calls it
    ],
)
def test_who_names_a_service_as_a_host_calls_it(
    imported: Import, told: str, files: Mapping[str, str]
) -> None:
    compose = f"services:\n  web:\n    image: nginx\n    {told}\n  db:\n    image: postgres\n"
    assert imported(compose, files).tiers[0].calls == ("db",)


def test_a_word_in_a_file_or_a_name_that_is_no_host_is_no_call(imported: Import) -> None:
    compose = (
        "services:\n  vote: { image: nginx }\n"
        "  result: { image: httpd, volumes: ['./app.js:/srv/app.js'] }\n"
        "  db:\n    image: mariadb\n    environment: { MYSQL_DATABASE: blog }\n"
        "  blog:\n    image: wordpress\n    environment: { WORDPRESS_DB_HOST: db }\n"
    )
    design = imported(compose, {"app.js": "//vote\nget('/vote', 'vote', '@vote ', 'vote: 3');\n"})
    calls = {tier.name: tier.calls for tier in design.tiers}
    assert calls == {"vote": (), "result": (), "db": (), "blog": ("db",)}


def test_networks_that_do_not_meet_keep_services_apart(imported: Import) -> None:
    compose = """\
services:
  web: { image: nginx, depends_on: [db], networks: [front] }
  api: { image: httpd, networks: [back] }
  db: { image: postgres, networks: [back] }
networks: { front: , back: }
"""
    calls = {tier.name: tier.calls for tier in imported(compose).tiers}
    assert calls == {"web": (), "api": ("db",), "db": ()}


def test_protocol_port_and_more_may_be_said_in_the_file(imported: Import) -> None:
    design = imported(
        """\
services:
  odd:
    image: example.org/odd
    x-sparecraft:
      protocol: http
      port: 1234
      state: copied
      arbiter: false
      load: { rate_per_s: 3, requests: [{ path: /a, check: hello }, { path: /b }] }
"""
    )
    values = role(design, "odd")
    assert (values["protocol"], values["port"], values["state"], values["arbiter"]) == (
        "http", 1234, "copied", False,
    )  # fmt: skip
    text = (design.folder / "experiment.toml").read_text()
    assert all(
        part in text for part in ("rate_per_s = 3.0", 'path = "/a"', '"hello"', 'path = "/b"')
    )


def test_requests_in_the_file_are_asked_as_they_are(imported: Import) -> None:
    design = imported(
        """\
services:
  odd:
    image: example.org/odd
    x-sparecraft:
      protocol: http
      port: 1234
      load: { requests: [{ path: "/a?b=$${c}", check: "\U0001f600 \\x7f" }] }
"""
    )
    operations = tomllib.loads((design.folder / "experiment.toml").read_text())["load"][
        "operations"
    ]
    assert (operations[0]["path"], operations[0]["checks"]) == (
        "/a?b=$${c}",
        [{"text": "\U0001f600 \x7f"}],
    )


def test_an_answer_says_protocol_and_port(imported: Import) -> None:
    design = imported(
        "services:\n  odd:\n    image: example.org/odd\n", ask=lambda _: Answer("http", 99)
    )
    assert (design.tiers[0].protocol, design.tiers[0].port) == ("http", 99)


def test_a_port_may_be_told_by_the_file_of_a_caller(imported: Import) -> None:
    web = "  web:\n    image: nginx\n    volumes: ['./n.conf:/etc/n.conf']\n"
    compose = f"services:\n{web}  app:\n    build: .\n"
    files = {"n.conf": "proxy_pass http://app:8000;\n", "Dockerfile": "FROM shop\n"}
    design = imported(compose, files)
    assert (design.tiers[1].port, design.tiers[0].calls) == (8000, ("app",))


def test_a_service_without_a_port_is_left_out_and_told(imported: Import) -> None:
    design = imported(
        "services:\n  web:\n    image: nginx\n  worker:\n    build: .\n", {"Dockerfile": "FROM a\n"}
    )
    assert [tier.name for tier in design.tiers] == ["web"]
    assert places(design)[-1] == "4: services.worker"


def test_a_known_image_that_runs_another_program_is_not_known(imported: Import) -> None:
    compose = "services:\n  web: { image: nginx }\n  cron: { image: nginx, entrypoint: /cron.sh }\n"
    design = imported(compose)
    assert [tier.name for tier in design.tiers] == ["web"]


def test_files_of_the_project_lie_over_the_image(imported: Import) -> None:
    design = imported(
        """\
services:
  web:
    image: nginx
    volumes:
      - ./nginx.conf:/etc/nginx/nginx.conf:ro
      - type: bind
        source: ./www
        target: /usr/share/nginx/html
      - /var/run/docker.sock:/var/run/docker.sock
      - ./absent:/absent
      - cache:/var/cache
    secrets: [key, { source: other, target: /etc/other }]
    configs: [{ source: motd, target: /etc/motd }]
volumes:
  cache: { x-sparecraft: { seed: ./seed } }
secrets:
  key: { file: ./key.txt }
  other: { environment: OTHER }
configs:
  motd: { content: "hello ${WHO}" }
""",
        {"nginx.conf": "a", "www/index.html": "b", "seed/x": "c", "key.txt": "d"},
        environment={"WHO": "you", "OTHER": "e"},
    )
    root = design.folder / "roles/web/root"
    files = {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()
    }
    assert files == {"etc/nginx/nginx.conf": "a", "usr/share/nginx/html/index.html": "b",
                     "var/cache/x": "c", "run/secrets/key": "d", "etc/other": "e",
                     "etc/motd": "hello you"}  # fmt: skip
    lines = [place for place in places(design) if ".volumes." in place]
    assert lines == [
        f"{line}: services.web.volumes.{k}" for k, line in enumerate((6, 9, 10, 11), start=1)
    ]


def test_each_part_without_effect_is_listed_with_its_place(imported: Import) -> None:
    design = imported(
        """\
services:
  web:
    image: nginx
    privileged: true
    ports: ["53:53/udp"]
    logging: { driver: none }
    healthcheck: { test: "true", timeout: 10s }
    secrets: [{ source: key, mode: 0400 }]
    depends_on: { job: { condition: service_completed_successfully } }
    environment: { LINES: "two\\nlines", WORD: "{name}" }
    x-sparecraft: { port: 80, protocol: http }
  job: { image: httpd }
  off: { image: httpd, profiles: [debug] }
secrets:
  key: { file: ./key }
""",
        {"key": "k"},
    )
    assert set(places(design)) >= {
        "4: services.web.privileged",
        "5: services.web.ports.0",
        "6: services.web.logging",
        "7: services.web.healthcheck.timeout",
        "8: services.web.secrets.0.mode",
        "9: services.web.depends_on.job",
        "10: services.web.environment.LINES",
        "10: services.web.environment.WORD",
        "13: services.off.profiles",
    }
    assert [tier.name for tier in design.tiers] == ["web", "job"]


def test_a_profile_that_is_asked_for_is_taken_in(imported: Import) -> None:
    compose = "services:\n  web:\n    image: nginx\n    profiles: [debug]\n"
    assert [tier.name for tier in imported(compose, profiles=["debug"]).tiers] == ["web"]


def test_a_dockerfile_loses_what_only_buildkit_knows_and_nothing_else(imported: Import) -> None:
    text = (
        "# syntax=docker/dockerfile:1.4\nFROM --platform=$BUILDPLATFORM a AS builder\n"
        "RUN --mount=type=cache,target=/root/.cache \\\n    make\n"
        "FROM builder AS dev\nRUN <<EOF\nx\nEOF\n"
    )
    compose = "services:\n  web:\n    build: { context: ., target: builder }\n    expose: [80]\n"
    design = imported(compose, {"Dockerfile": text})
    copy = (design.folder / "roles/web/context/Dockerfile").read_text()
    assert copy == "# syntax=docker/dockerfile:1.4\nFROM a AS builder\nRUN make\n"
    assert role(design, "web")["context"] == {"target": "builder"}


def test_tier_names_are_short_and_no_helper_s(imported: Import) -> None:
    names = ("a_very_long_name_of_a_service", "a_very_long_name_of_another")
    longs = "".join(f"  {name}: {{ image: nginx }}\n" for name in names)
    compose = f"services:\n  grafana: {{ image: grafana/grafana }}\n{longs}"
    tiers = [tier.name for tier in imported(compose).tiers]
    assert tiers == ["grafana-service", "a-very-long-name-of", "a-very-long-name-2"]


TWICE = "image: nginx, ports: ['80:80'] }\n  b: { image: nginx, ports: ['80:81']"
CIRCLE = "image: nginx, depends_on: [b] }\n  b: { image: nginx, depends_on: [a]"
# Place below services.a, and the service a.
WRONG = [
    ("depends_on", "image: nginx, depends_on: [c]"),
    ("", "command: x"),
    ("build", "build: ./absent"),
    ("build", "build: ."),
    ("build.context", "build: 'https://example.org/x.git'"),
    ("ports.0", "image: nginx, ports: ['eighty']"),
    ("volumes.0", "image: nginx, volumes: ['data:/x']"),
    ("secrets.0", "image: nginx, secrets: [key]"),
    ("networks", "image: nginx, networks: [n]"),
    ("env_file", "image: nginx, env_file: absent"),
    ("extends", "image: nginx, extends: { service: b }"),
    ("deploy.replicas", "image: nginx, deploy: { replicas: 0 }"),
    ("deploy.replicas", "image: nginx, deploy: { replicas: x }"),
    ("mem_limit", "image: nginx, mem_limit: much"),
    ("command", 'image: nginx, command: "\'"'),
    ("healthcheck.test", "image: nginx, healthcheck: { test: [x] }"),
    ("healthcheck.interval", "image: nginx, healthcheck: { test: x, interval: soon }"),
    ("x-sparecraft.prot", "image: nginx, x-sparecraft: { prot: http }"),
    ("x-sparecraft.protocol", "image: nginx, x-sparecraft: { protocol: smtp }"),
    ("x-sparecraft.calls", "image: nginx, x-sparecraft: { calls: [z] }"),
    ("depends_on", CIRCLE),
]


MANY = "\n".join(f"  s{n}: {{ image: nginx }}" for n in range(11))
OTHERS = [
    ("3: services.b.ports.0", f"  a: {{ {TWICE} }}"),  # two on one port
    ("2: services.odd", "  odd:\n    image: example.org/odd\n    expose: [7777]"),
    ("1: services", "  db: { image: postgres }"),  # nobody can ask it
    ("1: services", MANY),
]
WHOLE = [
    (".".join(filter(None, ("2: services.a", key))), f"  a: {{ {service} }}")
    for key, service in WRONG
]


@pytest.mark.parametrize(("place", "services"), WHOLE + OTHERS)
def test_what_cannot_be_is_refused_with_its_place(
    imported: Import, place: str, services: str, tmp_path: Path
) -> None:
    assert refused(imported, f"services:\n{services}\n") == place
    assert not (tmp_path / "design").exists()


def test_a_file_too_large_is_refused_and_nothing_is_made(imported: Import, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with (tmp_path / "project/large").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    compose = "services:\n  a:\n    build: .\n    expose: [80]\n"
    assert refused(imported, compose, {"Dockerfile": "FROM a\n"}) == "3: services.a.build"
    assert not (tmp_path / "design").exists()


def test_a_folder_that_exists_is_not_written_into_and_one_without_a_file_refused(
    imported: Import, tmp_path: Path
) -> None:
    (tmp_path / "design").mkdir()
    with pytest.raises(InputError) as error:
        imported("services:\n  a: { image: nginx }\n")
    assert error.value.place == str(tmp_path / "design")
    with pytest.raises(InputError) as error:
        import_compose(tmp_path, tmp_path / "other", "x", lambda _: None, {})
    assert error.value.place == str(tmp_path)
