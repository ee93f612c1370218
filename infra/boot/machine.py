"""Configures this instance as the machine of its settings; run as root at each boot, by boot.sh.

    python3 machine.py --region eu-west-1 --files BUCKET/PREFIX --settings SHA256

The settings are the object PREFIX/machines/SHA256.json of infra/stacks/ec2. The user data has its
checksum, and an object with another one is refused. Each step can be repeated.
Needs Debian 12 with python3-boto3 and iproute2, and nothing else of this project.
"""

from __future__ import annotations

import argparse
import hashlib
import ipaddress
import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]
from role import DONE, install_role, write_files
from units import MACHINE, systemd_runs, write_unit

METADATA = "http://169.254.169.254"
NETWORKD = Path("/etc/systemd/network")
CONTENT = Path("/var/tmp/content.tar.gz")

ATTACH_TIMEOUT_S = 600.0  # the machine before this one may still be ending, and hold its interfaces
LINK_TIMEOUT_S = 60.0
_POLL_S = 2.0
DEVICES = {"control": 1, "data": 2}  # device index on the instance
TABLES = {"control": "101", "data": "102"}  # routing tables: answers leave by the same interface


def main() -> None:
    """Run all steps in the order of their dependencies."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("region", "files", "settings"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    bucket, _, prefix = options.files.partition("/")
    s3 = client("s3", options.region)
    answer = s3.get_object(Bucket=bucket, Key=f"{prefix}/machines/{options.settings}.json")
    settings = json.loads(verify(answer["Body"].read(), options.settings, "settings"))
    exclude_from_networkd(settings["interfaces"])
    attach(client("ec2", options.region), settings["interfaces"])
    for interface in settings["interfaces"]:
        bring_up(interface)
    write_files(settings["files"])
    install_role(settings["role"], fetch_content(settings["content"], s3, bucket, prefix))
    if settings["program"]:
        start(settings["program"])


def verify(content: bytes, sha256: str, name: str) -> bytes:
    """Return `content` if its checksum is `sha256`. Raises ValueError otherwise."""
    got = hashlib.sha256(content).hexdigest()
    if got != sha256:
        raise ValueError(f"{name}: not what the fleet was planned with (got {got}, not {sha256})")
    return content


def client(service: str, region: str) -> Any:
    """Return a boto3 client; Debian 12's version does not read AWS_ENDPOINT_URL itself."""
    return boto3.client(service, region, endpoint_url=os.environ.get("AWS_ENDPOINT_URL"))


def own_instance() -> str:
    """Return this instance's id, from version 2 of the metadata service."""
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", METADATA)
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    request = urllib.request.Request(f"{base}/latest/api/token", method="PUT", headers=lifetime)
    with urllib.request.urlopen(request, timeout=5) as answer:
        token = {"X-aws-ec2-metadata-token": answer.read().decode()}
    request = urllib.request.Request(f"{base}/latest/meta-data/instance-id", headers=token)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return str(answer.read().decode())


def attach(ec2: Any, interfaces: list[dict[str, Any]]) -> None:
    """Attach the machine's interfaces, as soon as its previous instance releases them."""
    deadline = time.monotonic() + ATTACH_TIMEOUT_S
    for interface in interfaces:
        while link_of(interface["mac"]) is None:
            wish = {"NetworkInterfaceId": interface["id"], "InstanceId": own_instance()}
            try:
                ec2.attach_network_interface(DeviceIndex=DEVICES[interface["name"]], **wish)
                break
            except ClientError as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"{interface['id']}: expected it to be free within {ATTACH_TIMEOUT_S:.0f}"
                        f" s (got {error}). See which instance holds it."
                    ) from error
                print(f"sparecraft: {interface['name']} waits: {error}", flush=True)
                time.sleep(_POLL_S)


def exclude_from_networkd(interfaces: list[dict[str, Any]]) -> None:
    """Exclude the interfaces from the network daemon of the image.

    It would request a lease, and add a second default route.
    """
    NETWORKD.mkdir(parents=True, exist_ok=True)
    for interface in interfaces:
        text = f"[Match]\nMACAddress={interface['mac']}\n[Link]\nUnmanaged=yes\n"
        (NETWORKD / f"05-sparecraft-{interface['name']}.network").write_text(text)
    if systemd_runs():
        subprocess.run(["networkctl", "reload"], check=False)  # a daemon that is off reads it later


def link_of(mac: str) -> str | None:
    """Return the name of the link with this MAC address."""
    for link in Path("/sys/class/net").iterdir():
        if (link / "address").read_text().strip() == mac.lower():
            return link.name
    return None


def bring_up(interface: dict[str, Any]) -> None:
    """Set address and routes: the other zone by the gateway, answers by the same interface."""
    deadline = time.monotonic() + LINK_TIMEOUT_S
    while (link := link_of(interface["mac"])) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"interface {interface['id']}: expected a link with address {interface['mac']} "
                f"within {LINK_TIMEOUT_S:.0f} s (got none). See whether it is attached."
            )
        time.sleep(0.2)
    subnet = ipaddress.ip_network(interface["subnet"])
    address, table = interface["address"], TABLES[interface["name"]]
    gateway = str(subnet.network_address + 1)
    ip("address", "flush", "dev", link)
    ip("link", "set", link, "up")
    ip("address", "replace", f"{address}/{subnet.prefixlen}", "dev", link)
    ip("route", "replace", interface["peer"], "via", gateway, "dev", link, "src", address)
    ip("route", "replace", "default", "via", gateway, "dev", link, "table", table)
    while (
        subprocess.run(["ip", "rule", "del", "lookup", table], stderr=subprocess.DEVNULL).returncode
        == 0
    ):
        pass
    ip("rule", "add", "from", address, "lookup", table)


def ip(*arguments: str) -> None:
    """Run iproute2, which prints its errors to stderr. Raises CalledProcessError."""
    subprocess.run(["ip", *arguments], check=True)


def fetch_content(source: dict[str, str] | None, s3: Any, bucket: str, prefix: str) -> Path | None:
    """Download the role's content if an image build made it before."""
    if DONE.exists() or not source:
        return None
    s3.download_file(bucket, f"{prefix}/{source['key']}", str(CONTENT))
    with CONTENT.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != source["sha256"]:
        raise ValueError(f"{source['key']}: not what the fleet was planned with (got {got})")
    return CONTENT


def start(program: str) -> None:
    write_unit(program)
    if systemd_runs():
        subprocess.run(["systemctl", "daemon-reload"], check=True)
        subprocess.run(["systemctl", "restart", MACHINE], check=True)


if __name__ == "__main__":
    main()
