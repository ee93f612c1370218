"""Rows of limplock: the 28 of the paper's Table 1, what a row may not say, and servers' pages."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from core.errors import InputError
from experiments.kinds.limplock.clients import metrics_client
from experiments.kinds.limplock.clients.system import adapter_of
from experiments.kinds.limplock.row import FOLDER, Paper, read_row, rows
from experiments.paths import ROOT
from optimizer.tests.answers import Answer, answering

ROWS = rows()
PAPER = {name: row.paper for name, row in ROWS.items() if row.paper is not None}
# Table 1's base latencies in seconds, in its order.
BASES_S = {"F": [12, 182, 120, 9, 39, 208, 104, 432, 11, 4105, 174], "H": [80, 80, 80, 4320],
           "Z": [4, 5, 23, 26, 64], "C": [66, 73, 36], "B": [61, 151, 17, 4, 122]}  # fmt: skip


def test_all_rows_of_table_1_are_here_with_their_base_latencies() -> None:
    bases_s = {
        letter: [PAPER[f"{letter}{number}"].base_s for number in range(1, len(bases) + 1)]
        for letter, bases in BASES_S.items()
    }
    assert bases_s == BASES_S
    assert len(PAPER) == 28
    assert set(ROWS) - set(PAPER) == {"E1", "E2"}


def test_disks_limp_in_five_rows_of_one_system() -> None:
    disks = [name for name in PAPER if ROWS[name].limpware == "disk"]
    assert disks == ["F1", "F2", "F3", "F4", "F5"]
    assert len({ROWS[name].system for name in disks}) == 1


@pytest.mark.parametrize("paper", PAPER.values(), ids=PAPER)
def test_a_rows_verdicts_agree_with_each_other(paper: Paper) -> None:
    """The paper's limplock spreads upwards: no node without an operation, but a master's."""
    assert not (paper.operation == "no" and "yes" in (paper.node, paper.cluster))
    if "yes" not in (paper.operation, paper.node, paper.cluster):
        assert paper.slowdown is None or paper.slowdown <= 2.0


def test_rows_that_the_text_calls_free_of_limplock_have_none() -> None:
    free_rows = {
        name
        for name, paper in PAPER.items()
        if {paper.operation, paper.node, paper.cluster} == {"no"}
    }
    assert free_rows == {"F2", "F3", "H2", "H3", "Z1", "Z2", "Z4", "C1", "C2"}


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('limpware = "disk"', 'limpware = "fan"', "limpware"),
        ('limpware = "disk"', 'limpware = "disk"\ncolour = "red"', "colour"),
        ('name = "F4"', 'name = "F5"', "name"),
        ("count = 1000", "count = 0", "workload.count"),
        ('"stat", needs = "node"', '"stat", needs = "neither"', "probes.0.needs"),
        ('"read-block", needs = "neither"', '"read-block", needs = "node"', "probes"),
        ('node = "yes"', 'node = "maybe"', "paper.node"),
        ('injected = ["master"]', "injected = []", "injected"),
    ],
)
def test_a_row_that_is_none_is_refused_with_its_key(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    text = (FOLDER / "F4.toml").read_text()
    assert old in text
    (tmp_path / "F4.toml").write_text(text.replace(old, new))
    with pytest.raises(InputError) as error:
        read_row(tmp_path / "F4.toml")
    assert error.value.place.endswith(key)


@pytest.mark.parametrize("system", sorted({row.system for row in ROWS.values()}))
def test_an_adapter_can_ask_all_rows_of_its_system_and_no_other_operation(system: str) -> None:
    adapter = adapter_of(ROOT / "infra" / "roles" / system)
    system_rows = [row for row in ROWS.values() if row.system == system]
    for row in system_rows:
        adapter.check(row)
    for change in ({"operation": "defragment"}, {"consistency": None}):
        unknown_row = system_rows[0].model_copy(
            update={"workload": system_rows[0].workload.model_copy(update=change)}
        )
        if "operation" in change or system == "cassandra":
            with pytest.raises(InputError):
                adapter.check(unknown_row)


_BEANS = {"Hadoop:service=NameNode,name=FSNamesystem": '{"beans": [{"BlocksTotal": 7}]}',
          "none": '{"beans": []}', "no-beans": "{}", "no-object": "[1]",
          "text": "It works!"}  # fmt: skip


def _page(request: BaseHTTPRequestHandler, _: bytes) -> Answer:
    pattern = parse_qs(urlsplit(request.path).query).get("qry", [""])[0]
    answer = _BEANS.get(pattern, "").encode()
    return 200 if answer else 404, {}, answer


@pytest.fixture
def port() -> Iterator[int]:
    with answering(_page) as url:
        yield urlsplit(url).port or 0


@pytest.mark.parametrize("name", _BEANS)
def test_a_bean_or_nothing(port: int, name: str) -> None:
    expected = {"BlocksTotal": 7} if name.startswith("Hadoop") else {}
    assert metrics_client.bean("127.0.0.1", port, name) == expected


def test_who_refuses_or_does_not_listen_says_nothing(port: int) -> None:
    assert metrics_client.bean("127.0.0.1", port, "unknown") == {}
    assert metrics_client.bean("127.0.0.1", 1, "none") == {}


def test_a_request_makes_no_client(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would read all certificates of the system."""

    def made(*_: object, **__: object) -> ssl.SSLContext:
        raise AssertionError("a client of its own")

    monkeypatch.setattr(ssl, "create_default_context", made)
    name = next(iter(_BEANS))
    beans = [metrics_client.bean("127.0.0.1", port, name) for _ in range(3)]
    assert beans == [json.loads(_BEANS[name])["beans"][0]] * 3
