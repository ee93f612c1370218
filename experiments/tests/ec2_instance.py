"""A container as an instance that boots: the same Debian, an instance's metadata, its interfaces.

What a hypervisor does is stood in for: links appear when moto says that they are attached, and the
metadata service, which moto's server lacks, answers with the instance's id. There is no systemd.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from experiments.tests.ec2_stack import AppliedStack
from experiments.tests.engine import docker
from optimizer.tests.answers import Answer, answering

BASE = "sparecraft/base:bookworm"
_NAME = "tst-boot-ec2"
_TOKEN = "a-token"
_ATTACHED_S = 120.0


def host_address() -> str:
    """This host as containers on the default network see it."""
    route = docker("run", "--rm", BASE, "ip", "-4", "route", "show", "default")
    return route.split()[2]


class Instance:
    """The container; `run` is a command in it."""

    def __init__(self, stack: AppliedStack, machine: str, metadata: str) -> None:
        self._stack = stack
        self.settings = stack.settings(machine)
        self.identifier: str = stack.instances()[machine]["InstanceId"]
        environment = {
            name: value
            for name, value in stack.environment.items()
            if name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        } | {"AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata}
        docker("rm", "--force", "--volumes", _NAME)
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        rights = (
            "--cap-add=NET_ADMIN",
            "--cap-add=SYS_ADMIN",
            "--security-opt=apparmor=unconfined",
        )
        how = ("--detach", "--init", f"--name={_NAME}", *rights, *variables)
        docker("run", *how, BASE, "sleep", "900")

    def run(self, *command: str, text: str = "", detached: bool = False) -> str:
        """The output of a command; an assertion where it fails."""
        how = ["--detach"] if detached else ["--interactive"]
        return docker("exec", *how, _NAME, *command, text=text)

    def fails(self, *command: str) -> str:
        """The output of a command that has to fail."""
        process = subprocess.run(
            ["docker", "exec", _NAME, *command], capture_output=True, text=True
        )
        assert process.returncode != 0, process.stdout
        return process.stdout + process.stderr

    def plug_in(self) -> None:
        """Add a link for each interface once it is attached to the instance."""
        ec2 = self._stack.client("ec2")
        deadline = time.monotonic() + _ATTACHED_S
        waiting = {entry["id"]: entry for entry in self.settings["interfaces"]}
        while waiting and time.monotonic() < deadline:
            for description in ec2.describe_network_interfaces(NetworkInterfaceIds=list(waiting))[
                "NetworkInterfaces"
            ]:
                if description.get("Attachment", {}).get("InstanceId") == self.identifier:
                    interface = waiting.pop(description["NetworkInterfaceId"])
                    link = ["sc-" + interface["name"], "address", interface["mac"]]
                    peer = f"p-{interface['name']}"
                    self.run("ip", "link", "add", *link, "type", "veth", "peer", "name", peer)
                    self.run("ip", "link", "set", peer, "up")
            time.sleep(0.2)

    def let_go(self) -> None:
        """Detach the interfaces, as AWS does when an instance ends; moto keeps them attached."""
        ec2 = self._stack.client("ec2")
        ids = [entry["id"] for entry in self.settings["interfaces"]]
        interfaces = ec2.describe_network_interfaces(NetworkInterfaceIds=ids)["NetworkInterfaces"]
        for interface in interfaces:
            if attachment := interface.get("Attachment", {}).get("AttachmentId"):
                ec2.detach_network_interface(AttachmentId=attachment, Force=True)


@contextmanager
def instance(stack: AppliedStack, machine: str, address: str) -> Iterator[Instance]:
    """An instance of one machine, gone when this ends."""
    with answering(_metadata(stack.instances()[machine]["InstanceId"]), address) as url:
        new_instance = Instance(stack, machine, url)
        plugging = threading.Thread(target=new_instance.plug_in, daemon=True)
        plugging.start()
        try:
            yield new_instance
        finally:
            docker("rm", "--force", "--volumes", _NAME)
            plugging.join(timeout=60)
            new_instance.let_go()


def _metadata(identifier: str) -> Callable[[BaseHTTPRequestHandler, bytes], Answer]:
    """The metadata service's second version, as far as it is used: no answer without a token."""
    answers = {
        ("PUT", "/latest/api/token", None): _TOKEN,
        ("GET", "/latest/meta-data/instance-id", _TOKEN): identifier,
    }

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> Answer:
        token = request.headers.get("X-aws-ec2-metadata-token")
        text = answers.get((request.command, request.path, token))
        return 401 if text is None else 200, {}, (text or "").encode()

    return answer
