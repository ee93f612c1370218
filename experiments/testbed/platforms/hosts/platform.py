"""The platform `hosts`: existing machines, by ssh.

Terraform assigns machines to hosts and makes the certificates. This module surveys, takes, installs
and gives back hosts.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.errors import EnvironmentMissing, InputError
from core.json_object import JsonObject
from experiments.design.inventory import Identity, Inventory
from experiments.paths import ROOT
from experiments.testbed.platforms.hosts.hosts_file import Host, Hosts, read
from experiments.testbed.platforms.hosts.role_bundle import packed
from experiments.testbed.platforms.hosts.ssh import Remote
from experiments.testbed.platforms.journal import MachineJournal, Note
from experiments.testbed.platforms.terraform import Progress, Stack

STACK = ROOT / "infra" / "stacks" / "hosts"
FILE = "hosts.toml"
_BUNDLE = ROOT / "build" / "bundle" / "sparecraft.tar.gz"
_AT_ONCE = 16
_POLL_S = 2.0


class HostsPlatform:
    """One experiment's fleet on hosts that are there."""

    name = "hosts"
    # The agent stops the role's processes; its own and the kernel's go on.
    through_agent: Mapping[str, str] = {"machine.freeze": "process.hang"}
    reachable = True
    is_attached = False
    on_this_host = False
    ready_timeout_s = 300.0

    def __init__(
        self,
        experiment: str,
        file: Path | None = None,
        *,
        stack: Path = STACK,
        bundle: Path = _BUNDLE,
    ) -> None:
        """`file` None: that of the last `up` here, else hosts.toml."""
        self.experiment = experiment
        self.stack = Stack(stack, experiment)
        self._file = file or self._hosts_file()
        # Without a file, an `up` or a hosts.toml here nothing was made from here.
        self._has_hosts = file is not None or self._file_note.exists() or self._file.exists()
        self._bundle = bundle
        # Beside the state, not where a restart of this machine empties: a host stays off longer.
        journal = self.stack.state_directory / "machines"
        self.journal = MachineJournal(self.name, experiment, journal)

    def check(self) -> None:
        """Raises EnvironmentMissing if a host does not answer, cannot be a machine, or is
        another experiment's. A host that a killed run left off is switched on first.
        """
        self._await(note.machine for note in self.journal.undo_ended(self.undo))
        self._surveyed(self._listed().hosts)

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """Survey, plan, take, install; what fails is told host by host, and `down` undoes it."""
        listed = self._listed()
        found = self._surveyed(listed.hosts)
        if not self._bundle.exists():
            raise EnvironmentMissing(
                str(self._bundle),
                expected="the bundle that machines are made of",
                got="none",
                hint="Run ci/bundle, with the folder of the design's own roles if it has any.",
            )
        rows = [_row(host, found[host.name]) for host in listed.hosts]
        self._keep_file()
        self.stack.apply(tfvars, progress, {"hosts": rows})
        expires = datetime.now(UTC) + timedelta(hours=listed.ttl_hours)
        self._install(f"{expires:%Y-%m-%dT%H:%M:%SZ}", progress)
        return self.inventory()

    def _install(self, expires: str, progress: Progress) -> None:
        settings: JsonObject = self.stack.output("settings")
        remotes = {name: self._remote(one["host"]) for name, one in settings.items()}
        self._each(remotes, lambda _, remote: remote.take(self.experiment, expires))
        progress(f"{len(remotes)} hosts are taken until {expires}")

        parts = packed(self._bundle, {one["role"] for one in settings.values()})

        def install(machine: str, remote: Remote) -> None:
            role = settings[machine]["role"]
            content = self._bundle.parent / "content" / f"{role}.tar.gz"
            remote.install(self.experiment, parts[role], content, settings[machine])
            progress(f"{machine} is made on {remote.host.name}")

        self._each(remotes, install)

    def inventory(self) -> Inventory:
        """Return the resources of the state."""
        return self.stack.inventory()

    def identity(self) -> Identity:
        """Return the client certificate for the agents' API."""
        return self.stack.identity()

    def down(self, progress: Progress) -> list[str]:
        """Give every host of the file back that is this experiment's, then forget the state.
        Returns what is not as it was. Raises EnvironmentMissing if one of the fleet's does not
        answer, once the others are given back: call again, or its own time to live does it.
        """
        differs: list[str] = []
        self._switch_on(progress)

        def release(name: str, remote: Remote) -> None:
            changed = remote.release(self.experiment)
            differs.extend(f"{name}: {one}" for one in changed)
            progress(f"{name} is given back")

        holding, unanswered = self._holding()
        self._each({one: self._remote(one) for one in holding}, release)
        taken = {one["host"] for one in self._settings().values()}
        _raise([error for name, error in unanswered.items() if name in taken])
        if self.stack.state_directory.exists():
            self.stack.destroy(progress)
        return sorted(differs)

    def remaining(self) -> list[str]:
        """Hosts that say they are still this experiment's."""
        return [f"host {name}" for name in self._holding()[0]]

    def machine_logs(self, machine: str, lines: int = 20) -> str:
        """Return the last lines that the machine's program printed, so many at most."""
        try:
            return self._of(machine).log(lines).strip()
        except EnvironmentMissing as error:
            return f"(no log: {error.got})"

    def inject(self, kind: str, machine: str) -> None:
        """A machine's fault, where the file of hosts says how; else refused."""
        remote = self._of(machine)
        if kind == "machine.reboot" and remote.host.sysrq:
            remote.reboot()
        elif kind == "machine.crash" and remote.host.power_off is not None:
            self.journal.write(kind, remote.host.name, str(remote.host.power_on))
            _here(remote.host.power_off, remote.host.name)
        else:
            raise InputError(
                f"fault {kind} on {machine}",
                expected="`power_off` and `power_on`, or for machine.reboot `sysrq`, of its host",
                got=f"neither for {remote.host.name} in {self._file}",
                hint="Say so there if this host may be crashed, or take a fault of the agent.",
            )

    def revert(self, kind: str, machine: str) -> None:
        """Undo `inject`, once the host answers; idempotent."""
        host = self._of(machine).host
        if kind == "machine.crash" and host.power_on is not None:
            _here(host.power_on, host.name)
            self.journal.clear(host.name)
        self._await([host.name])
        self.start(machine)

    def undo(self, note: Note) -> None:
        """Switch the host on, by the command that it had when it was switched off."""
        _here(note.how, note.machine)

    def start(self, machine: str) -> None:
        """The machine's program, where it does not run; hosts stay on, but for `machine.crash`."""
        remote = self._of(machine)
        off = [note for note in self.journal.notes() if note.machine == remote.host.name]
        self._await(note.machine for note in self.journal.undo_all(self.undo, off))
        remote.start(self.experiment)

    def stop(self, machine: str) -> None:
        """The program and all that it runs, at once; the host stays on."""
        self._of(machine).stop(self.experiment)

    def replace(self, machine: str, progress: Progress) -> None:
        """Refused: the stack takes the scheme on-prem only."""
        del progress
        raise EnvironmentMissing(
            f"machine {machine} of {self.experiment}",
            expected="a platform that can replace machines",
            got="hosts, which are existing machines",
            hint="Use the scheme on-prem.",
        )

    def load_helpers(self) -> int:
        """None: this machine makes the load."""
        return 0

    def running(self, machine: str) -> bool:
        """True if the host answers, and the machine's program runs there."""
        try:
            return self._of(machine).runs()
        except EnvironmentMissing:
            return False

    def cpu_s(self) -> Mapping[str, float]:
        """Return nothing: the machines are on other hosts."""
        return {}

    def _switch_on(self, progress: Progress) -> None:
        """Hosts whose power a fault took, whoever goes on."""
        undone = list[Note]()
        for note in self.journal.notes():
            try:
                undone += self.journal.undo_all(self.undo, [note])
                progress(f"{note.machine} was off by {note.kind}, and is switched on")
            except EnvironmentMissing as error:
                progress(str(error))  # the host is then among those that do not answer
        self._await(note.machine for note in undone)

    def _await(self, hosts: Iterable[str]) -> None:
        """Wait at most `ready_timeout_s` until hosts answer; a later call reports silent ones."""

        def until(_: str, remote: Remote) -> None:
            deadline = time.monotonic() + self.ready_timeout_s
            while time.monotonic() < deadline:
                with suppress(EnvironmentMissing):
                    remote.holder()
                    return
                time.sleep(_POLL_S)

        self._each({name: self._remote(name) for name in hosts}, until)

    def _listed(self) -> Hosts:
        return read(self._file)

    def _remote(self, name: str) -> Remote:
        listed = self._listed()
        for host in listed.hosts:
            if host.name == name:
                return Remote(host, listed)
        raise InputError(
            str(self._file),
            expected=f"the host {name}, which this fleet has",
            got=", ".join(host.name for host in listed.hosts),
            hint="Write it in again until `sparecraft down` has given it back.",
        )

    def _of(self, machine: str) -> Remote:
        return self._remote(self.stack.output("settings")[machine]["host"])

    def _surveyed(self, hosts: Sequence[Host]) -> dict[str, JsonObject]:
        """Return the facts of each host, by name. Raises EnvironmentMissing for all that cannot be
        had.
        """
        found: dict[str, JsonObject] = {}

        def survey(name: str, remote: Remote) -> None:
            found[name] = remote.survey()
            holder = found[name]["holder"]
            if holder is not None and holder["experiment"] not in (self.experiment, ""):
                raise EnvironmentMissing(
                    f"host {name}",
                    expected="a host that is free, or this experiment's",
                    got=f"taken by {holder['experiment']} until {holder['expires']}",
                    hint=f"`sparecraft down {holder['experiment']} --platform hosts` gives it "
                    f"back.",
                )

        self._each({host.name: self._remote(host.name) for host in hosts}, survey)
        return found

    def _holding(self) -> tuple[list[str], dict[str, EnvironmentMissing]]:
        """Return the hosts that say they are this experiment's, and those that do not answer."""
        holding, unanswered = list[str](), dict[str, EnvironmentMissing]()
        if not self._has_hosts:
            return holding, unanswered

        def ask(name: str, remote: Remote) -> None:
            try:
                holder = remote.holder()
            except EnvironmentMissing as error:
                unanswered[name] = error
                return
            if holder is not None and holder["experiment"] == self.experiment:
                holding.append(name)

        self._each({host.name: self._remote(host.name) for host in self._listed().hosts}, ask)
        return sorted(holding), unanswered

    def _settings(self) -> JsonObject:
        return dict(self.stack.output("settings")) if self.stack.state_resources() else {}

    def _each(self, remotes: Mapping[str, Remote], hint: Callable[[str, Remote], None]) -> None:
        """Call a function for all hosts at once, and wait for all.

        Raises EnvironmentMissing with all failures.
        """
        failed: list[EnvironmentMissing] = []

        def one(name: str) -> None:
            try:
                hint(name, remotes[name])
            except EnvironmentMissing as error:
                failed.append(error)

        with ThreadPoolExecutor(max_workers=_AT_ONCE) as together:
            list(together.map(one, remotes))
        _raise(failed)

    @property
    def _file_note(self) -> Path:
        return self.stack.state_directory / FILE

    def _keep_file(self) -> None:
        self._file_note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file_note.write_text(str(self._file.resolve()))

    def _hosts_file(self) -> Path:
        return Path(self._file_note.read_text() if self._file_note.exists() else FILE)


def _raise(failed: Sequence[EnvironmentMissing]) -> None:
    """All of them as one, if there are any."""
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise EnvironmentMissing(
            f"{len(failed)} hosts",
            expected=failed[0].expected,
            got="; ".join(sorted(f"{error.place}: {error.got}" for error in failed)),
            hint=failed[0].hint,
        )


def _row(host: Host, found: Mapping[str, Any]) -> JsonObject:
    said = {"name": host.name, "address": host.address, "cores": host.cores}
    return {**said, "data_address": found["data_address"], "usd_per_hour": host.usd_per_hour}


def _here(command: str, host: str) -> None:
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        raise EnvironmentMissing(
            f"power of host {host}",
            expected="its command to succeed",
            got=(done.stderr.strip() or done.stdout.strip())[-500:],
            hint="Try the command by hand; the file of hosts has it.",
        )
