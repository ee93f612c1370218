"""EC2 prices through real boto3, against a server that speaks the pricing API's protocol."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import EnvironmentMissing, InputError
from optimizer.prices import load_prices, price_book
from optimizer.prices.refresh import refresh, write_book
from optimizer.tests.command_line import invoke
from optimizer.tests.pricing_api import PricingApi, product, serving

TODAY = datetime.date(2026, 2, 3)


EAST = [product("m5.large", "0.0970000000"), product("c5.large", "0.0860000000"),
        product("x9.huge", "99.0"), product("t3.nano", "0.0053000000"),
        product("m5.xlarge", "0.1940000000")]  # fmt: skip
WEST = [product("m5.large", "0.1080000000")]
Start = Callable[[PricingApi], PricingApi]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No profile, role or metadata service of this machine; one attempt; nobody listens."""
    for key in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return monkeypatch


@pytest.fixture
def start(aws: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a pricing API and points boto3 at it, with credentials."""
    with ExitStack() as servers:

        def begin(api: PricingApi) -> PricingApi:
            aws.setenv("AWS_ENDPOINT_URL_PRICING", servers.enter_context(serving(api)))
            aws.setenv("AWS_ACCESS_KEY_ID", "test")
            aws.setenv("AWS_SECRET_ACCESS_KEY", "test")
            return api

        yield begin


def test_all_pages_are_read_and_only_the_books_types_are_taken(start: Start) -> None:
    api = start(PricingApi({"us-east-1": EAST}))
    new = refresh(load_prices(), ["us-east-1"], TODAY)
    found = {i.name: i.usd_per_hour for i in new.book.instances("us-east-1")}
    assert found == {"t3.nano": 0.0053, "c5.large": 0.086, "m5.large": 0.097, "m5.xlarge": 0.194}
    assert [r.get("NextToken") for r in api.requests] == [None, "2", "4"]
    assert new.book.as_of == "2026-02-03"
    assert "Price List API" in new.book.source


def test_the_question_is_linux_shared_on_demand_of_that_region(start: Start) -> None:
    api = start(PricingApi({"eu-west-1": WEST}))
    refresh(load_prices(), ["eu-west-1"], TODAY)
    (request,) = api.requests
    assert request["ServiceCode"] == "AmazonEC2"
    assert {f["Field"]: f["Value"] for f in request["Filters"]} == {
        "regionCode": "eu-west-1", "operatingSystem": "Linux", "tenancy": "Shared",
        "preInstalledSw": "NA", "capacitystatus": "Used",
    }  # fmt: skip
    assert {f["Type"] for f in request["Filters"]} == {"TERM_MATCH"}


def test_a_type_that_the_api_does_not_return_is_listed_and_not_kept(start: Start) -> None:
    start(PricingApi({"us-east-1": EAST, "eu-west-1": WEST}))
    old = load_prices()
    new = refresh(old, ["us-east-1", "eu-west-1"], TODAY)
    assert "c6i.large" in new.missing["us-east-1"]
    assert len(new.missing["us-east-1"]) == len(old.instances("us-east-1")) - 4
    assert [i.name for i in new.book.instances("eu-west-1")] == ["m5.large"]
    assert "c5.large" in new.missing["eu-west-1"]


def test_a_refreshed_book_reads_back_as_it_was(start: Start, tmp_path: Path) -> None:
    start(PricingApi({"us-east-1": EAST}))
    new = refresh(load_prices(), ["us-east-1"], TODAY).book
    path = tmp_path / "deep" / "ec2.toml"
    write_book(new, path)
    again = load_prices(path)
    assert again == new
    assert again.instance("us-east-1", "t3.nano").baseline_share == 0.05
    write_book(load_prices(), path)
    assert load_prices(path) == load_prices()
    assert [p.name for p in path.parent.iterdir()] == ["ec2.toml"]


def test_a_throttled_request_is_tried_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    api = start(PricingApi({"eu-west-1": WEST}, refusals=["ThrottlingException"]))
    assert len(refresh(load_prices(), ["eu-west-1"], TODAY).book.instances("eu-west-1")) == 1
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    "refusal", ["ThrottlingException", "ExpiredTokenException", "AccessDeniedException"]
)
def test_a_service_that_keeps_refusing_is_a_missing_environment(start: Start, refusal: str) -> None:
    start(PricingApi({"eu-west-1": WEST}, refusals=[refusal] * 9))
    with pytest.raises(EnvironmentMissing, match=refusal) as caught:
        refresh(load_prices(), ["eu-west-1"], TODAY)
    assert caught.value.exit_code == 3


def test_no_credentials_and_no_network_are_a_missing_environment(
    aws: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(EnvironmentMissing, match="credentials"):
        refresh(load_prices(), ["eu-west-1"], TODAY)
    aws.setenv("AWS_ACCESS_KEY_ID", "test")
    aws.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with pytest.raises(EnvironmentMissing, match="EndpointConnectionError") as caught:
        refresh(load_prices(), ["eu-west-1"], TODAY)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (product("m5.large", "cheap"), "cheap"),
        (product("m5.large", "0.0000000000"), "m5.large"),
        (product("m5.large", "-1"), "m5.large"),
        (product("m5.large", "NaN"), "m5.large"),
        (product("m5.large", "0.1", unit="Quantity"), "m5.large"),
        (json.dumps({"product": {"attributes": {"instanceType": "m5.large"}}}), "terms"),
        (json.dumps(["m5.large"]), "a product"),
        ("{", "JSON"),
        (product("m5.large", "0.2", sku="OTHER"), "0.108 and 0.2"),
    ],
)
def test_an_answer_that_is_not_one_price_is_refused_and_nothing_written(
    start: Start, tmp_path: Path, entry: str, named: str
) -> None:
    start(PricingApi({"eu-west-1": [*WEST, entry]}))
    with pytest.raises(InputError, match=named):
        refresh(load_prices(), ["eu-west-1"], TODAY)
    path = tmp_path / "ec2.toml"
    result = invoke("prices", "refresh", "--region", "eu-west-1", "--output", str(path))
    assert isinstance(result.exception, InputError)
    assert list(tmp_path.iterdir()) == []


def test_a_region_without_prices_and_a_book_of_owned_servers_are_refused(start: Start) -> None:
    start(PricingApi({"us-east-1": EAST}))
    with pytest.raises(InputError, match="mars-1"):
        refresh(load_prices(), ["mars-1"], TODAY)
    with pytest.raises(InputError, match="owned"):
        refresh(price_book("on-prem"), ["on-prem"], TODAY)


def test_a_book_that_cannot_be_read_back_does_not_replace_one_that_can(tmp_path: Path) -> None:
    path = tmp_path / "ec2.toml"
    good = load_prices()
    write_book(good, path)
    with pytest.raises(InputError, match="source"):
        write_book(replace(good, source=""), path)
    assert load_prices(path) == good
    assert [p.name for p in tmp_path.iterdir()] == ["ec2.toml"]


def test_the_command_writes_a_book_and_says_what_is_missing(start: Start, tmp_path: Path) -> None:
    start(PricingApi({"us-east-1": EAST}))
    path = tmp_path / "mine.toml"
    result = invoke("prices", "refresh", "--region", "us-east-1", "--output", str(path))
    assert result.exit_code == 0, result.output
    assert "us-east-1: 4 types priced" in result.output
    assert "c6i.large" in result.output
    assert "eu-west-1" in result.output  # left out, and said
    listed = json.loads(invoke("prices", "--book", str(path), "--json").output)
    assert [row["name"] for row in listed["regions"]["us-east-1"]][:2] == ["t3.nano", "c5.large"]
    assert listed["as_of"] == datetime.datetime.now(datetime.UTC).date().isoformat()


def test_the_command_lists_both_built_in_books_as_tables_and_json() -> None:
    table = invoke("prices", "--region", "eu-west-1")
    assert table.exit_code == 0
    assert "by hand" in table.output
    rows = json.loads(invoke("prices", "list", "--json").output)["regions"]
    assert set(rows) == {"us-east-1", "eu-west-1"}
    assert "usd_per_month_of" not in rows["eu-west-1"][0]
    owned = invoke("prices", "--book", "on-prem")
    assert "purchase" in owned.output
    row = json.loads(invoke("prices", "--book", "on-prem", "--json").output)["regions"]["on-prem"][
        0
    ]
    assert sum(row["usd_per_month_of"].values()) == pytest.approx(row["usd_per_month"])
    assert isinstance(invoke("prices", "--region", "mars-1").exception, InputError)
