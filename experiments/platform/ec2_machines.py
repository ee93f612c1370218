"""EC2 as the platform's hand on its machines: stop, start, reboot, replace, look at the console.

A machine is found by its tags, the newest that is alive: in the scheme `cloud` auto-scaling groups
make instances that no state knows.
"""

from __future__ import annotations

from experiments.errors import EnvironmentMissing
from experiments.platform import tagged
from experiments.platform.aws import Aws, AwsRefused, answering
from experiments.platform.tagged import Tagged

_ON = ("pending", "running")
_CONSOLE_LINES = 20
_OFF_TIMEOUT_S = 600.0  # a stop with force takes up to minutes
_POLL_S = 5.0


class Ec2Machines:
    """The machines of one experiment in one region."""

    def __init__(self, experiment: str, aws: Aws) -> None:
        self._experiment = experiment
        self._aws = aws

    def running(self, machine: str) -> bool:
        """Whether the machine's power is on."""
        found = self._newest(machine)
        return found is not None and found.state in _ON

    def start(self, machine: str) -> None:
        """Power on, where the machine is off. A group makes its machine anew by itself."""
        one = self._one(machine)
        if one.state in _ON or one.group:
            return
        if one.state == "stopping":
            self._await(one, "instance_stopped")  # EC2 refuses to start it before
        self._aws.call("ec2", "start_instances", InstanceIds=[one.id])

    def crash(self, machine: str) -> None:
        """Power loss as near as EC2 has it: a stop that does not wait for the operating system."""
        one = self._one(machine)
        self._aws.call("ec2", "stop_instances", InstanceIds=[one.id], Force=True)

    def stop(self, machine: str) -> None:
        """Power off at once, where it is on; a group is told to replace its machine without
        waiting for its own check."""
        one = self._newest(machine)
        if one is None or one.state not in _ON:
            return
        self._aws.call("ec2", "stop_instances", InstanceIds=[one.id], Force=True)
        if one.group:
            self._aws.call(
                "autoscaling",
                "terminate_instance_in_auto_scaling_group",
                InstanceId=one.id,
                ShouldDecrementDesiredCapacity=False,
            )

    def reboot(self, machine: str) -> None:
        """Ask for a restart; EC2 forces it where the operating system does not obey in minutes."""
        self._aws.call("ec2", "reboot_instances", InstanceIds=[self._one(machine).id])

    def console(self, machine: str) -> str:
        """The console's last lines, or in brackets why there are none; raises nothing, for it is
        shown where something has gone wrong already."""
        try:
            one = self._one(machine)
            said = self._console(one.id)
        except EnvironmentMissing as error:
            return f"(no console: {error.came})"
        lines = said.strip().splitlines()[-_CONSOLE_LINES:]
        nothing = f"(nothing yet: {one.id} is {one.state}; EC2 shows the console minutes later)"
        return "\n".join(lines) or nothing

    def _console(self, identifier: str) -> str:
        try:
            answer = self._aws.call("ec2", "get_console_output", InstanceId=identifier, Latest=True)
        except AwsRefused as error:
            if error.code != "UnsupportedOperation":  # instance types before Nitro
                raise
            answer = self._aws.call("ec2", "get_console_output", InstanceId=identifier)
        return str(answer.get("Output", ""))

    def _newest(self, machine: str) -> Tagged | None:
        found = tagged.instances(self._aws, self._experiment, machine)
        return found[0] if found else None

    def _one(self, machine: str) -> Tagged:
        found = self._newest(machine)
        if found is None:
            raise EnvironmentMissing(
                f"machine {machine} of {self._experiment}, region {self._aws.region}",
                expected="an instance with its tags",
                came="none that is alive",
                do="`sparecraft list --platform ec2` shows what is there; its time to live may be "
                "over, or its group is making a new one.",
            )
        return found

    def _await(self, one: Tagged, state: str) -> None:
        with answering(f"waiting until {one} is off", self._aws.region):
            self._aws.client("ec2").get_waiter(state).wait(
                InstanceIds=[one.id],
                WaiterConfig={"Delay": _POLL_S, "MaxAttempts": int(_OFF_TIMEOUT_S / _POLL_S)},
            )
