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
from experiments.design.inventory import Inventory
from experiments.paths import ROOT
from experiments.testbed.platforms.hosts.hosts_file import Host, Hosts, read
from experiments.testbed.platforms.hosts.role_bundle import pack_roles
from experiments.testbed.platforms.hosts.ssh import Remote
from experiments.testbed.platforms.journal import MachineJournal, Note
from experiments.testbed.platforms.terraform import Progress, Stack, StackFleet

STACK = ROOT / "infra" / "stacks" / "hosts"
FILE = "hosts.toml"
_BUNDLE = ROOT / "build" / "bundle" / "sparecraft.tar.gz"
_AT_ONCE = 16
_POLL_S = 2.0


class HostsPlatform(StackFleet):
    """One experiment's fleet on existing hosts."""

    name = "hosts"
    # The agent stops the role's processes; its own and the kernel's go on.
    through_agent: Mapping[str, str] = {"machine.freeze": "process.hang"}
    reachable = True
    is_attached = False
    on_this_host = False
    ready_timeout_s = 300.0

    def __init__(self, experiment: str, file: Path | None = None, *, stack: Path = STACK) -> None:
        """`file` None: that of the last `up` here, else hosts.toml."""
        self.experiment = experiment
        self.stack = Stack(stack, experiment)
        self._file = file or self._hosts_file()
        # Without a file, an earlier `up` or a hosts.toml here, no fleet was made from here.
        self._has_hosts = file is not None or self._file_note.exists() or self._file.exists()
        # Beside the state: a restart of this machine empties other folders, but leaves hosts off.
        journal = self.stack.state_directory / "machines"
        self.journal = MachineJournal(self.name, experiment, journal)

    def check(self) -> None:
        """Raises EnvironmentMissing if a host does not answer, cannot be a machine, or is
        another experiment's. A host that a killed run left off is switched on first.
        """
        self._await(note.machine for note in self.journal.undo_ended(self.undo))
        self._survey(self._read_hosts().hosts)

    def up(self, tfvars: Path, progress: Progress) -> Inventory:
        """Survey, plan, take, install; errors name each host, and `down` undoes all of it."""
        hosts_file = self._read_hosts()
        facts = self._survey(hosts_file.hosts)
        if not _BUNDLE.exists():
            raise EnvironmentMissing(
                str(_BUNDLE),
                expected="the bundle that machines are made of",
                got="none",
                hint="Run ci/bundle, with the folder of the design's own roles if it has any.",
            )
        rows = [_host_row(host, facts[host.name]) for host in hosts_file.hosts]
        self._keep_file()
        self.stack.apply(tfvars, progress, {"hosts": rows})
        expires = datetime.now(UTC) + timedelta(hours=hosts_file.ttl_hours)
        self._install(f"{expires:%Y-%m-%dT%H:%M:%SZ}", progress)
        return self.inventory()

    def _install(self, expires: str, progress: Progress) -> None:
        settings: JsonObject = self.stack.output("settings")
        remotes = {
            name: self._remote(machine_settings["host"])
            for name, machine_settings in settings.items()
        }
        self._call_each(remotes, lambda _, remote: remote.take(self.experiment, expires))
        progress(f"{len(remotes)} hosts are taken until {expires}")

        parts = pack_roles(
            _BUNDLE, {machine_settings["role"] for machine_settings in settings.values()}
        )

        def install(machine: str, remote: Remote) -> None:
            role = settings[machine]["role"]
            content = _BUNDLE.parent / "content" / f"{role}.tar.gz"
            remote.install(self.experiment, parts[role], content, settings[machine])
            progress(f"{machine} is made on {remote.host.name}")

        self._call_each(remotes, install)

    def down(self, progress: Progress) -> list[str]:
        """Give back every host of the file that is this experiment's, then forget the state.
        Returns the differences from before. Raises EnvironmentMissing if a host of the fleet does
        not answer, once the others are given back: call again, or its own time to live ends it.
        """
        differences: list[str] = []
        self._switch_on(progress)

        def release(name: str, remote: Remote) -> None:
            changed = remote.release(self.experiment)
            differences.extend(f"{name}: {difference}" for difference in changed)
            progress(f"{name} is given back")

        our_hosts, unanswered = self._find_our_hosts()
        self._call_each({name: self._remote(name) for name in our_hosts}, release)
        fleet_hosts = {machine_settings["host"] for machine_settings in self._settings().values()}
        _raise_all([error for name, error in unanswered.items() if name in fleet_hosts])
        if self.stack.state_directory.exists():
            self.stack.destroy(progress)
        return sorted(differences)

    def remaining(self) -> list[str]:
        """Return the hosts that say they are still this experiment's."""
        return [f"host {name}" for name in self._find_our_hosts()[0]]

    def machine_logs(self, machine: str, lines: int = 20) -> str:
        """Return at most `lines` last lines that the machine's program printed."""
        try:
            return self._remote_of(machine).log(lines).strip()
        except EnvironmentMissing as error:
            return f"(no log: {error.got})"

    def inject(self, kind: str, machine: str) -> None:
        """Inject a machine's fault by the command in the file of hosts. Raises InputError if there
        is none."""
        remote = self._remote_of(machine)
        if kind == "machine.reboot" and remote.host.sysrq:
            remote.reboot()
        elif kind == "machine.crash" and remote.host.power_off is not None:
            self.journal.write(kind, remote.host.name, str(remote.host.power_on))
            _run_here(remote.host.power_off, remote.host.name)
        else:
            raise InputError(
                f"fault {kind} on {machine}",
                expected="`power_off` and `power_on`, or for machine.reboot `sysrq`, of its host",
                got=f"neither for {remote.host.name} in {self._file}",
                hint="Say so there if this host may be crashed, or take a fault of the agent.",
            )

    def revert(self, kind: str, machine: str) -> None:
        """Undo `inject`, once the host answers; idempotent."""
        host = self._remote_of(machine).host
        if kind == "machine.crash" and host.power_on is not None:
            _run_here(host.power_on, host.name)
            self.journal.clear(host.name)
        self._await([host.name])
        self.start(machine)

    def undo(self, note: Note) -> None:
        """Switch the host on, by the command that it had when it was switched off."""
        _run_here(note.how, note.machine)

    def start(self, machine: str) -> None:
        """Start the machine's program if it does not run; hosts stay on except by machine.crash."""
        remote = self._remote_of(machine)
        off = [note for note in self.journal.notes() if note.machine == remote.host.name]
        self._await(note.machine for note in self.journal.undo_all(self.undo, off))
        remote.start(self.experiment)

    def stop(self, machine: str) -> None:
        """Stop the program and all that it runs, at once; the host stays on."""
        self._remote_of(machine).stop(self.experiment)

    def replace(self, machine: str, progress: Progress) -> None:
        """Raise EnvironmentMissing, because the stack takes the scheme on-prem only."""
        del progress
        raise EnvironmentMissing(
            f"machine {machine} of {self.experiment}",
            expected="a platform that can replace machines",
            got="hosts, which are existing machines",
            hint="Use the scheme on-prem.",
        )

    def load_helpers(self) -> int:
        """Return 0: this machine makes the load."""
        return 0

    def running(self, machine: str) -> bool:
        """True if the host answers, and the machine's program runs there."""
        try:
            return self._remote_of(machine).runs()
        except EnvironmentMissing:
            return False

    def cpu_s(self) -> Mapping[str, float]:
        """Return nothing: the machines are on other hosts."""
        return {}

    def _switch_on(self, progress: Progress) -> None:
        """Switch on the hosts that a fault switched off, whether or not its run goes on."""
        undone_notes = list[Note]()
        for note in self.journal.notes():
            try:
                undone_notes += self.journal.undo_all(self.undo, [note])
                progress(f"{note.machine} was off by {note.kind}, and is switched on")
            except EnvironmentMissing as error:
                progress(str(error))  # the host is then among those that do not answer
        self._await(note.machine for note in undone_notes)

    def _await(self, hosts: Iterable[str]) -> None:
        """Wait at most `ready_timeout_s` until hosts answer; a later call reports silent ones."""

        def until(_: str, remote: Remote) -> None:
            deadline = time.monotonic() + self.ready_timeout_s
            while time.monotonic() < deadline:
                with suppress(EnvironmentMissing):
                    remote.holder()
                    return
                time.sleep(_POLL_S)

        self._call_each({name: self._remote(name) for name in hosts}, until)

    def _read_hosts(self) -> Hosts:
        return read(self._file)

    def _remote(self, name: str) -> Remote:
        hosts_file = self._read_hosts()
        for host in hosts_file.hosts:
            if host.name == name:
                return Remote(host, hosts_file)
        raise InputError(
            str(self._file),
            expected=f"the host {name}, which this fleet has",
            got=", ".join(host.name for host in hosts_file.hosts),
            hint="Write it in again until `sparecraft down` has given it back.",
        )

    def _remote_of(self, machine: str) -> Remote:
        return self._remote(self.stack.output("settings")[machine]["host"])

    def _survey(self, hosts: Sequence[Host]) -> dict[str, JsonObject]:
        """Return the facts of each host, by name. Raises EnvironmentMissing, naming all hosts that
        are not available.
        """
        facts: dict[str, JsonObject] = {}

        def survey(name: str, remote: Remote) -> None:
            facts[name] = remote.survey()
            holder = facts[name]["holder"]
            if holder is not None and holder["experiment"] not in (self.experiment, ""):
                raise EnvironmentMissing(
                    f"host {name}",
                    expected="a host that is free, or this experiment's",
                    got=f"taken by {holder['experiment']} until {holder['expires']}",
                    hint=f"`sparecraft down {holder['experiment']} --platform hosts` gives it "
                    f"back.",
                )

        self._call_each({host.name: self._remote(host.name) for host in hosts}, survey)
        return facts

    def _find_our_hosts(self) -> tuple[list[str], dict[str, EnvironmentMissing]]:
        """Return the hosts that say they are this experiment's, and those that do not answer."""
        our_hosts, unanswered = list[str](), dict[str, EnvironmentMissing]()
        if not self._has_hosts:
            return our_hosts, unanswered

        def ask(name: str, remote: Remote) -> None:
            try:
                holder = remote.holder()
            except EnvironmentMissing as error:
                unanswered[name] = error
                return
            if holder is not None and holder["experiment"] == self.experiment:
                our_hosts.append(name)

        self._call_each(
            {host.name: self._remote(host.name) for host in self._read_hosts().hosts}, ask
        )
        return sorted(our_hosts), unanswered

    def _settings(self) -> JsonObject:
        return dict(self.stack.output("settings")) if self.stack.state_resources() else {}

    def _call_each(
        self, remotes: Mapping[str, Remote], action: Callable[[str, Remote], None]
    ) -> None:
        """Call a function for all hosts at once, and wait for all.

        Raises EnvironmentMissing with all failures.
        """
        errors: list[EnvironmentMissing] = []

        def run_action(name: str) -> None:
            try:
                action(name, remotes[name])
            except EnvironmentMissing as error:
                errors.append(error)

        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            list(pool.map(run_action, remotes))
        _raise_all(errors)

    @property
    def _file_note(self) -> Path:
        return self.stack.state_directory / FILE

    def _keep_file(self) -> None:
        self._file_note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file_note.write_text(str(self._file.resolve()))

    def _hosts_file(self) -> Path:
        return Path(self._file_note.read_text() if self._file_note.exists() else FILE)


def _raise_all(errors: Sequence[EnvironmentMissing]) -> None:
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise EnvironmentMissing(
            f"{len(errors)} hosts",
            expected=errors[0].expected,
            got="; ".join(sorted(f"{error.place}: {error.got}" for error in errors)),
            hint=errors[0].hint,
        )


def _host_row(host: Host, facts: Mapping[str, Any]) -> JsonObject:
    row = {"name": host.name, "address": host.address, "cores": host.cores}
    return {**row, "data_address": facts["data_address"], "usd_per_hour": host.usd_per_hour}


def _run_here(command: str, host: str) -> None:
    process = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if process.returncode != 0:
        raise EnvironmentMissing(
            f"power of host {host}",
            expected="its command to succeed",
            got=(process.stderr.strip() or process.stdout.strip())[-500:],
            hint="Try the command by hand; the file of hosts has it.",
        )
