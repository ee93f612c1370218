"""Commands on a machine by AWS's Systems Manager, without an open port.

Shell(aws, "i-1").ask(["look", "20261126T1200"])     # the answer of `remote_runner.py`
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence

from core.errors import EnvironmentMissing
from core.json_object import JsonObject
from experiments.testbed.platforms.ec2.aws import Aws, AwsRefused

PROGRAM = (
    "/opt/sparecraft/venv/bin/python",
    "-P",
    "-m",
    "experiments.testbed.platforms.ec2.remote_runner",
)
DOCUMENT = "AWS-RunShellScript"
_GOES_ON = ("Pending", "InProgress", "Delayed", "Cancelling")
_POLL_S = 0.5
_DELIVERY_S = 60  # a machine that does not take a command in this time is asked again


class Failed(EnvironmentMissing):
    """The machine took the command, and reports that it failed."""


class Shell:
    """Commands on the first load machine from another machine."""

    def __init__(self, aws: Aws, instance: str) -> None:
        self._aws = aws
        self._instance = instance

    def ask(self, arguments: Sequence[str], *, timeout_s: float = 60.0) -> JsonObject:
        """Return the answer of `remote_runner.py` to `arguments`. Raises Failed if the command
        failed, EnvironmentMissing if it or AWS does not answer within `timeout_s`.
        """
        command = shlex.join([*PROGRAM, *arguments])
        answer = self._aws.call(
            "ssm",
            "send_command",
            InstanceIds=[self._instance],
            DocumentName=DOCUMENT,
            TimeoutSeconds=_DELIVERY_S,
            Parameters={"commands": [command], "executionTimeout": [f"{timeout_s:.0f}"]},
        )
        invocation = self._await_end(answer["Command"]["CommandId"], timeout_s + _DELIVERY_S)
        if invocation["Status"] == "Success":
            try:
                return dict(json.loads(invocation["StandardOutputContent"]))
            except ValueError:
                pass
        output = (
            invocation["StandardErrorContent"] or invocation["StandardOutputContent"] or "nothing"
        )
        kind = Failed if invocation["Status"] == "Failed" else EnvironmentMissing
        raise self._failure(arguments[0], f"{invocation['Status']}: {output.strip()[-2000:]}", kind)

    def await_answer(self, arguments: Sequence[str], timeout_s: float) -> JsonObject:
        """Return the same, from a machine that may still be installing what answers."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.ask(arguments)
            except AwsRefused as error:
                # Systems Manager does not know a machine before its agent has called.
                if error.code != "InvalidInstanceId" or time.monotonic() > deadline:
                    raise
            except EnvironmentMissing:
                if time.monotonic() > deadline:
                    raise
            time.sleep(min(5.0, timeout_s))

    def _await_end(self, command: str, timeout_s: float) -> JsonObject:
        deadline = time.monotonic() + timeout_s
        while True:
            time.sleep(_POLL_S)
            try:
                invocation = self._aws.call(
                    "ssm", "get_command_invocation", CommandId=command, InstanceId=self._instance
                )
                if invocation["Status"] not in _GOES_ON:
                    return dict(invocation)
            except AwsRefused as error:
                if error.code != "InvocationDoesNotExist":  # a moment after it was sent
                    raise
            if time.monotonic() > deadline:
                raise self._failure(command, f"no end within {timeout_s:.0f} s")

    def _failure(
        self, subject: str, got: str, kind: type[EnvironmentMissing] = EnvironmentMissing
    ) -> EnvironmentMissing:
        return kind(
            f"load machine {self._instance}, region {self._aws.region}, {subject}",
            expected="an answer",
            got=got,
            hint="`aws ec2 get-console-output --latest --instance-id "
            f"{self._instance}` shows whether the machine is made; then call again.",
        )
