"""Which entries are asked by TLS, and what plans say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import InputError
from experiments.design import Design, load_design
from experiments.design.experiment import OPERATIONS
from experiments.design.inventory import Inventory
from experiments.load.plan import protocol_of
from experiments.load.tls import tls_of
from experiments.run.block import entries_for
from experiments.tests.operations_fixture import PAGE, toml
from experiments.tests.spec_fixture import TFVARS, write

ROLE = {"summary": "s", "port": 8443, "image": "shop:1", "arbiter": True, "state": "none"}
KEYS = 'tls_name = "shop.test"\ninsecure = true\n'


def read(directory: Path, protocol: str, keys: str) -> Design:
    """A design whose entry is a shop of that protocol."""
    role = directory / "roles" / "shop"
    role.mkdir(parents=True)
    (role / "role.json").write_text(json.dumps({**ROLE, "protocol": protocol}))
    tfvars = TFVARS.replace('role = "mediawiki", calls = ["db"],', 'role = "shop",')
    tfvars = tfvars.replace('scheme     = "on-prem"', 'scheme = "on-prem"\nentries = ["web", "db"]')
    text = toml(PAGE, keys=keys).replace("replicas = 2", "replicas = 1")
    write(directory, toml=text, tfvars=tfvars)
    return load_design(directory)


def test_a_tier_that_speaks_tcp_is_asked_by_https_where_a_name_is_stated(tmp_path: Path) -> None:
    design = read(tmp_path, "tcp", KEYS)
    one = {"tier": "web", "urls": ["tcp://127.0.0.1:8443"]}
    inventory = Inventory.model_construct(
        endpoints=type("Endpoints", (), {"entries": [type("Entry", (), one)]})
    )
    entries = entries_for(design.workloads[OPERATIONS], design, inventory)
    assert entries == {"web": ("https://127.0.0.1:8443",)}
    load = design.experiment.load
    found = tls_of(load, design.directory, load.tls_name)
    assert found is not None
    assert (found.name, found.insecure) == ("shop.test", True)


@pytest.mark.parametrize(
    ("protocol", "keys", "key"),
    [
        ("http", KEYS, "load.operations"),
        ("tcp", "", "load.operations"),
        ("tcp", KEYS + 'ca = "ca.pem"\n', "load.insecure"),
    ],
)
def test_tls_that_cannot_be_is_refused_by_its_key(
    tmp_path: Path, protocol: str, keys: str, key: str
) -> None:
    with pytest.raises(InputError) as found:
        read(tmp_path, protocol, keys)
    assert found.value.place.endswith(key)


def test_https_speaks_http() -> None:
    assert [protocol_of(f"{one}://127.0.0.1/") for one in ("https", "http", "redis")] == [
        "http",
        "http",
        "redis",
    ]
