"""A real moto server of this host: it answers as AWS's APIs do. No test reaches AWS itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from experiments.tests.started import told
from optimizer.tests.answers import Answer, answering

REGION = "eu-west-1"
ACCOUNT = "123456789012"  # moto's


def environment(url: str) -> dict[str, str]:
    """The environment in which boto3 and Terraform talk to `url` with credentials that nobody gave
    out."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_SESSION_TOKEN": "testing",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def led_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lead boto3 and Terraform of this process to `url`."""
    for name, value in environment(url).items():
        monkeypatch.setenv(name, value)


def client_at(url: str, service: str) -> Any:
    """Return a boto3 client of this address, whatever the environment says."""
    import boto3  # type: ignore[import-untyped]

    keys = dict.fromkeys(("aws_access_key_id", "aws_secret_access_key"), "testing")
    return boto3.client(service, region_name=REGION, endpoint_url=url, **keys)


@contextmanager
def moto_server(log: Path, host: str = "127.0.0.1", **settings: str) -> Iterator[str]:
    """The URL of a moto server of its own process, gone when this ends; `settings` are moto's."""
    command = [sys.executable, "-m", "moto.server", "--host", host, "--port", "0"]
    with (
        log.open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=file, env=os.environ | settings) as process,
    ):
        try:
            yield told(process, log, r"Running on (http://[\d.:]+)")
        finally:
            process.kill()


def reset(url: str) -> None:
    """Forget everything that was made."""
    httpx.post(f"{url}/moto-api/reset", trust_env=False, timeout=60.0).raise_for_status()


Meddled = Callable[[BaseHTTPRequestHandler, bytes], Answer | None]


@contextmanager
def in_front_of(moto: str, meddled: Meddled) -> Iterator[str]:
    """The URL of a way to moto on which `meddled` may give an answer of its own. Also serves as a
    proxy, as moto does."""

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        if replacement := meddled(request, body):
            return replacement
        headers = {k: v for k, v in request.headers.items() if k.lower() != "accept-encoding"}
        path = "/" + request.path.split("/", 3)[3] if "://" in request.path else request.path
        response = client.request(request.command, moto + path, headers=headers, content=body)
        drop = ("transfer-encoding", "content-length", "connection")
        response_headers = {k: v for k, v in response.headers.items() if k.lower() not in drop}
        if request.command == "HEAD" and "content-length" in response.headers:
            response_headers["Content-Length"] = response.headers["content-length"]
        return response.status_code, response_headers, response.content

    with httpx.Client(trust_env=False, timeout=60.0) as client, answering(answer) as url:
        yield url
