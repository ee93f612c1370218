"""AWS's pricing API on 127.0.0.1, as boto3 calls it: JSON 1.1, GetProducts, pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from optimizer.tests.answers import Answer, answering


def product(name: str, usd: str, *, unit: str = "Hrs", sku: str = "SKU") -> str:
    """One entry of a PriceList: JSON in a string, as the API has it."""
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}, "description": f"{usd} per hour"}
    return json.dumps(
        {
            "product": {"productFamily": "Compute Instance", "attributes": {"instanceType": name},
                        "sku": sku},
            "serviceCode": "AmazonEC2",
            "terms": {
                "OnDemand": {f"{sku}.TERM": {"priceDimensions": {f"{sku}.TERM.1": dimension}}},
                "Reserved": {f"{sku}.R": {"priceDimensions": {"x": {"unit": "Quantity"}}}},
            },
        }
    )  # fmt: skip


@dataclass
class PricingApi:
    """Products by region, `page` of them at a time; `refusals` are answered first, one each."""

    products: Mapping[str, list[str]]
    page: int = 2
    refusals: list[str] = field(default_factory=list)
    requests: list[Mapping[str, Any]] = field(default_factory=list)

    def answer(self, target: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        self.requests.append(body)
        if target != "AWSPriceListService.GetProducts":
            return 400, {"__type": "UnknownOperationException"}
        if self.refusals:
            return 400, {"__type": self.refusals.pop(0), "message": "as the test wants it"}
        filters = {f["Field"]: f["Value"] for f in body["Filters"]}
        products = self.products.get(filters["regionCode"], [])
        start = int(body.get("NextToken", "0"))
        end = start + self.page
        next_token = {"NextToken": str(end)} if end < len(products) else {}
        return 200, {"FormatVersion": "aws_v1", "PriceList": products[start:end], **next_token}


def serving(api: PricingApi) -> AbstractContextManager[str]:
    """The URL at which `api` answers."""

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        status, content = api.answer(request.headers["X-Amz-Target"], json.loads(body))
        return status, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(content).encode()

    return answering(answer)
