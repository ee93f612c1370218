"""A real moto server of this host: it answers as AWS's APIs do. No test reaches AWS itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx

from experiments.tests.started import told
from optimizer.tests.answers import Answer, answering

REGION = "eu-west-1"


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


@contextmanager
def moto_server(log: Path, host: str = "127.0.0.1", **settings: str) -> Iterator[str]:
    """The URL of a moto server of its own process, gone when this ends; `settings` are moto's."""
    command = [sys.executable, "-m", "moto.server", "--host", host, "--port", "0"]
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | settings) as process,
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

    def answer(asked: BaseHTTPRequestHandler, body: bytes) -> Answer:
        if own := meddled(asked, body):
            return own
        kept = {k: v for k, v in asked.headers.items() if k.lower() != "accept-encoding"}
        path = "/" + asked.path.split("/", 3)[3] if "://" in asked.path else asked.path
        came = client.request(asked.command, moto + path, headers=kept, content=body)
        drop = ("transfer-encoding", "content-length", "connection")
        passed = {k: v for k, v in came.headers.items() if k.lower() not in drop}
        if asked.command == "HEAD" and "content-length" in came.headers:
            passed["Content-Length"] = came.headers["content-length"]
        return came.status_code, passed, came.content

    with httpx.Client(trust_env=False, timeout=60.0) as client, answering(answer) as url:
        yield url
