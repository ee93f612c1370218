"""The stores and the search tier: their content, their writes, death and return."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from machines import ROOT, Machine, docker, eventually, get

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

CACHE, STORE, COPY, SEARCH, UI, APACHE = (f"198.18.241.{n}" for n in (40, 50, 51, 60, 70, 80))
WORDS = (ROOT / "infra/roles/mariadb/titles.txt").read_text().split()
Start = Callable[..., Machine]


def say(address: str, port: int, text: str, until: bytes) -> bytes:
    """Send a text to a server; return its answer up to and with `until`."""
    with socket.create_connection((address, port), timeout=60) as connection:
        connection.sendall(text.encode())
        answer = b""
        while not answer.endswith(until):
            data = connection.recv(65536)
            assert data, answer[-200:]
            answer += data
        return answer


def settings(folder: Path, **values: str) -> dict[str, Path]:
    path = folder / "role.env"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return {"/etc/sparecraft/role.env": path}


def value_of(key: str) -> bytes:
    answer = say(CACHE, 11211, f"get {key}\r\n", b"END\r\n")
    head, _, rest = answer.partition(b"\r\n")
    return rest[: int(head.split()[3])]


def test_a_cache_holds_its_records_also_after_a_sigkill(machine: Start) -> None:
    cache = machine("memcached", CACHE)
    sizes = {"entry:019999": 1000, "page:000399": 64_000}
    before = {key: value_of(key) for key in sizes}
    assert {key: len(value) for key, value in before.items()} == sizes
    assert all(value.startswith(key.encode() + b" ") for key, value in before.items())
    cache.die_and_return()
    assert {key: value_of(key) for key in sizes} == before
    assert say(CACHE, 11211, "flush_all\r\n", b"OK\r\n")
    assert cache.is_ready(), "its arbiter empties a cache that missed a write"


@pytest.mark.parametrize(
    ("role", "address", "program"),
    [
        ("memcached", "198.18.241.41", "/usr/bin/memcached"),
        ("redis", "198.18.241.52", "/usr/bin/redis-server"),
        ("mediawiki", "198.18.241.81", "/usr/sbin/apache2"),
    ],
)
def test_a_variant_runs_in_the_packages_place_and_one_that_is_not_there_is_refused(
    machine: Start, tmp_path: Path, role: str, address: str, program: str
) -> None:
    """The stand-in for the hardened program says that it was called, and is the package's:
    compiling one takes minutes, which the designs redis-variants and memcached-variants do."""
    variant = tmp_path / "ilr"
    load = "".join(
        f' -C "LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so"'
        for name in ("mpm_prefork", "authz_core", "alias", "mime")
    )
    options = load if role == "mediawiki" else ""
    variant.write_text(f'#!/bin/sh\ntouch /tmp/variant\nexec {program}{options} "$@"\n')
    variant.chmod(0o755)
    role_environment = {"ROLE": "apache"} if role == "mediawiki" else {}
    files = settings(tmp_path, VARIANT="ilr", **role_environment)
    files["/opt/sparecraft/bin/variants/ilr"] = variant
    host = machine(role, address, files, name=f"{role}-ilr")
    host.run("test", "-e", "/tmp/variant")
    docker("rm", "-f", "-v", host.name)  # the next one has its address
    (tmp_path / "no").mkdir()  # of no name that an image may have, whatever was compiled here
    files = settings(tmp_path / "no", VARIANT="no", **role_environment)
    bad_host = machine(role, address, files, name=f"{role}-no", wait=False)
    assert docker("wait", bad_host.name).strip() == "1"
    assert "VARIANT=no: expected /opt/sparecraft/bin/variants/no" in docker("logs", bad_host.name)


def test_a_redis_replica_begins_where_the_file_ends_and_follows(
    machine: Start, tmp_path: Path
) -> None:
    primary = machine("redis", STORE, settings(tmp_path, ROLE="redis"))
    (tmp_path / "replica").mkdir()
    replica = machine(
        "redis", COPY, settings(tmp_path / "replica", REDIS_PRIMARY=STORE), name="redis-replica"
    )
    field = primary.run("redis-cli", "hget", "page:000399", "field0").strip()
    assert len(field) == 5000
    assert field.startswith("page:000399 ")
    eventually(
        "the replica's link is up",
        lambda: "master_link_status:up" in replica.run("redis-cli", "info", "replication"),
    )
    stats = primary.run("redis-cli", "info", "stats")
    assert "sync_full:0" in stats, "the replica took a copy of everything"
    primary.run("redis-cli", "hset", "entry:000001", "field3", "new")
    eventually(
        "the write arrives",
        lambda: replica.run("redis-cli", "hget", "entry:000001", "field3").strip() == "new",
    )
    assert "READONLY" in replica.run("redis-cli", "set", "a", "b")
    primary.die_and_return()
    assert primary.run("redis-cli", "dbsize").strip().endswith("21400")


def test_a_search_finds_the_entries_of_both_dictionaries_and_comes_back(
    machine: Start, tmp_path: Path
) -> None:
    solr = machine("solr", SEARCH)
    select = f"http://{SEARCH}:8983/solr/dictionary/select"
    answer = get(f"{select}?q=*:*&rows=0")
    assert answer.status_code == 200
    assert answer.json()["response"]["numFound"] >= 50_000
    sources = set()
    for word in WORDS[::400]:
        entries = get(f"{select}?q={quote(word)}&rows=20").json()["response"]["docs"]
        assert any(word.lower() in entry["headword"].lower() for entry in entries), word
        sources |= {entry["source"] for entry in entries}
    assert sources == {"gcide", "wordnet"}

    ui = machine("solr-ui", UI, settings(tmp_path, SOLR_HOST=SEARCH, SOLR_PORT="8983"))
    word = WORDS[7]
    page = f"http://{UI}/?q={quote(word)}"
    assert f"<title>{word}:" in get(page).text
    assert get(f"http://{UI}/").status_code == 400
    assert "&lt;script&gt;" in get(f"http://{UI}/?q=%3Cscript%3E").text
    docker("kill", solr.name)
    assert get(page).status_code == 502
    assert ui.is_ready(), "a search tier that is down does not make the front end look dead"
    docker("start", solr.name)
    solr.wait_until_ready()
    ui.die_and_return()
    assert f"<title>{word}:" in get(page).text


def test_an_apache_without_a_database_serves_a_file_and_php(machine: Start, tmp_path: Path) -> None:
    apache = machine("mediawiki", APACHE, settings(tmp_path, ROLE="apache"), name="apache")
    assert "sparecraft" in get(f"http://{APACHE}/static/style.css").text
    assert "<title>1000" in get(f"http://{APACHE}/loop.php").text
    apache.die_and_return()
