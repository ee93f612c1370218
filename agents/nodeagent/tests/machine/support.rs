//! Machines for the tests: containers as the platform makes them, with a data and a control
//! network.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use testkit::mtls::{Authority, Identity};
use testkit::wait::REPLY_LIMIT;

use crate::client::request;

const IMAGE: &str = "sparecraft/base:bookworm";
const DATA_NETWORK: &str = "tst-agent-data";
const CONTROL_NETWORK: &str = "tst-agent-control";
/// The two networks, halves of one range of 198.18.0.0/15 that is these tests' own.
const DATA: &str = "198.18.242";
const CONTROL_FROM: u8 = 128;
pub const AGENT_PORT: u16 = 7443;
/// Generous: the host may be busy with other things.
const WAIT_LIMIT: Duration = Duration::from_secs(90);

/// The contents of the machine's `/test/login`.
pub const LOGIN: &str = "tester:of-this-test";
pub const NIC_MBPS: f64 = 200.0;
pub const DISK_BYTES_PER_S: u64 = 40_000_000;

/// A role with processes in three places: its own session, a child, and a session of its own.
pub const IDLE_ROLE: &str = "sleep 100001 &\n(setsid sleep 100002 &)\nexec sleep 100003\n";
/// A role that wants all the CPU it can get.
pub const BUSY_ROLE: &str = "while :; do :; done\n";

static NEXT_HOST: AtomicU8 = AtomicU8::new(10);
static LIVE: Mutex<usize> = Mutex::new(0);

/// Runs `docker` and returns what it printed, or what it complained about. One that does not end is
/// ended, which has status 124.
pub fn docker(arguments: &[&str]) -> Result<String, String> {
    let limit_s = REPLY_LIMIT.as_secs().to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &limit_s, "docker"]).args(arguments);
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let (words, status) = (arguments.join(" "), output.status);
    Err(format!("docker {words}: {status}: {}", text(&output.stderr)))
}

/// False, with a printed reason, where these tests cannot run.
fn docker_is_here() -> bool {
    match docker(&["image", "inspect", "--format", "{{.Id}}", IMAGE]) {
        Ok(_) => true,
        Err(reason) => {
            eprintln!("skipped: needs Docker and the image {IMAGE}: {reason}");
            false
        }
    }
}

/// Waits until `probe` gives something, by asking again and again.
pub fn wait_for<T>(state: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + WAIT_LIMIT;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < until, "{state} did not come within {} s", WAIT_LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until `holds` is true.
pub fn wait_until(state: &str, mut holds: impl FnMut() -> bool) {
    wait_for(state, || holds().then_some(()));
}

/// Both networks, as long as any test holds one of these.
pub struct Networks;

impl Networks {
    fn open() -> Networks {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        if *live == 0 {
            for (name, subnet) in [
                (DATA_NETWORK, format!("{DATA}.0/25")),
                (CONTROL_NETWORK, format!("{DATA}.128/25")),
            ] {
                let result = docker(&["network", "create", "--subnet", &subnet, name]);
                assert!(
                    result.is_ok() || format!("{result:?}").contains("already exists"),
                    "{result:?}"
                );
            }
        }
        *live += 1;
        Networks
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        *live -= 1;
        if *live == 0 {
            for name in [DATA_NETWORK, CONTROL_NETWORK] {
                let _ = docker(&["network", "rm", name]);
            }
        }
    }
}

/// A container, removed when it goes out of scope.
pub struct Container {
    pub name: String,
    pub data_address: String,
    _networks: Networks,
}

impl Container {
    /// Runs a command in it; panics with its complaint if it fails.
    pub fn run(&self, script: &str) -> String {
        docker(&["exec", &self.name, "sh", "-c", script]).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A machine without an agent, with an iperf3 server.
    pub fn peer() -> Container {
        let networks = Networks::open();
        let host = NEXT_HOST.fetch_add(1, Ordering::Relaxed);
        let name = format!("tst-agent-{}-{host}", std::process::id());
        let data_address = format!("{DATA}.{host}");
        let mut words = vec!["run", "-d", "--name", &name, "--network", DATA_NETWORK];
        words.extend(["--ip", &data_address, IMAGE, "iperf3", "-s"]);
        docker(&words).unwrap();
        let peer = Container { name, data_address, _networks: networks };
        wait_until("the peer's iperf3", || peer.run("ss -ltn").contains(":5201"));
        peer
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = Command::new("docker").args(["logs", &self.name]).output();
            let text = logs.map_or(vec![], |output| output.stderr);
            eprintln!("{}", String::from_utf8_lossy(&text));
        }
        let _ = docker(&["rm", "-f", "-v", &self.name]);
    }
}

/// A machine with this role, or `with` further lines of its configuration, that can inject a fault of
/// this kind. Where there is none the test ends here, with a printed reason.
macro_rules! machine_or_skip {
    (with $role:expr, $more:expr $(, $kind:literal)?) => {{
        let Some(machine) = $crate::support::Machine::start_with($role, $more) else {
            return;
        };
        $(if !machine.can($kind) {
            return;
        })?
        machine
    }};
    ($role:expr $(, $kind:literal)?) => {
        machine_or_skip!(with $role, "" $(, $kind)?)
    };
}

/// A machine with an agent as process 1.
pub struct Machine {
    pub container: Container,
    pub authority: Authority,
    pub control: IpAddr,
    client: Identity,
    _files: tempfile::TempDir,
}

impl Machine {
    /// A machine with this role, and further lines at the top of its configuration; `None`, with a
    /// printed reason, where Docker is not.
    pub fn start_with(role: &str, more: &str) -> Option<Machine> {
        if !docker_is_here() {
            return None;
        }
        let networks = Networks::open();
        let host = NEXT_HOST.fetch_add(1, Ordering::Relaxed);
        let data = format!("{DATA}.{host}");
        let control = format!("{DATA}.{}", CONTROL_FROM + host);
        let authority = Authority::new();
        let files = write_files(&authority, &data, &control, role, more);
        let name = format!("tst-agent-{}-{host}", std::process::id());
        create(&name, &data, files.path());
        let container = Container { name, data_address: data, _networks: networks };
        let words = ["network", "connect", "--ip", &control, CONTROL_NETWORK, &container.name];
        docker(&words).unwrap();
        docker(&["start", &container.name]).unwrap();
        let client = authority.client();
        let control = control.parse().unwrap();
        let machine = Machine { container, authority, control, client, _files: files };
        machine.wait_until_ready();
        Some(machine)
    }

    pub fn wait_until_ready(&self) {
        wait_for("a ready machine", || {
            let (status, health) = self.try_call("GET", "/v1/health?check=now", None).ok()?;
            (status == 200 && health["ready"] == true).then_some(())
        });
    }

    /// Runs a command in the machine.
    pub fn run(&self, script: &str) -> String {
        self.container.run(script)
    }

    /// Calls the API as the controller; panics if there is no answer.
    pub fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        self.try_call(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub fn try_call(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<(u16, Value), String> {
        let body = body.map_or(String::new(), |body| body.to_string());
        self.try_call_as(Some(&self.client), method, path, body)
    }

    /// Calls the API with a certificate of the caller's choice, or none.
    pub fn try_call_as(
        &self,
        client: Option<&Identity>,
        method: &str,
        path: &str,
        body: String,
    ) -> Result<(u16, Value), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let call =
            request((self.control, AGENT_PORT).into(), &self.authority, client, method, path, body);
        let limited = async { tokio::time::timeout(WAIT_LIMIT, call).await };
        runtime.block_on(limited).map_err(|_| format!("no answer within {WAIT_LIMIT:?}"))?
    }

    /// False, with a printed reason, if this machine cannot inject the kind.
    pub fn can(&self, kind: &str) -> bool {
        let (_, capabilities) = self.call("GET", "/v1/capabilities", None);
        let entry = &capabilities["faults"][kind];
        if entry["available"] == true {
            return true;
        }
        eprintln!("skipped: {kind} is not available here: {}", entry["reason"]);
        false
    }

    /// Asks for settings; the status and the answer.
    pub fn set(&self, settings: Value, lease_s: f64) -> (u16, Value) {
        let request = json!({ "settings": settings, "lease_s": lease_s });
        self.call("PUT", "/v1/settings", Some(request))
    }

    /// Injects a fault and returns its id.
    pub fn inject(&self, kind: &str, parameters: Value) -> String {
        self.inject_for(kind, parameters, 120.0)
    }

    pub fn inject_for(&self, kind: &str, parameters: Value, lease_s: f64) -> String {
        let request = json!({ "kind": kind, "parameters": parameters, "lease_s": lease_s });
        let (status, fault) = self.call("POST", "/v1/faults", Some(request));
        let expected = (201, &json!("active"));
        assert_eq!((status, &fault["state"]), expected, "{fault}");
        fault["id"].as_str().unwrap().to_owned()
    }

    /// Asks for a fault that shall be refused; the status and the reason.
    pub fn refused(&self, kind: &str, parameters: Value, lease_s: f64) -> (u16, String) {
        let request = json!({ "kind": kind, "parameters": parameters, "lease_s": lease_s });
        let (status, body) = self.call("POST", "/v1/faults", Some(request));
        let reason = body["error"].as_str();
        let reason = reason.unwrap_or_else(|| panic!("not refused: {body}"));
        (status, reason.to_owned())
    }

    /// Asks for a fault that shall be refused with this status, for a reason with `word` in it.
    pub fn refuses(&self, kind: &str, parameters: Value, status: u16, word: &str) {
        let (code, reason) = self.refused(kind, parameters, 5.0);
        let is_expected = code == status && reason.contains(word);
        assert!(is_expected, "{kind}: {code} {reason}");
    }

    /// Asks for settings that restart the role.
    pub fn restart_with(&self, settings: Value) {
        let (status, answer) = self.set(settings, 600.0);
        let expected = (200, &json!("running"));
        assert_eq!((status, &answer["service"]), expected, "{answer}");
    }

    /// Its dose, once that is measured; whether it bit is as expected.
    pub fn dose(&self, id: &str, bit: bool) -> Value {
        wait_for("a dose", || {
            let dose = self.fault(id)["dose"].clone();
            (dose["bit"] == bit).then_some(dose)
        })
    }

    /// Its dose, once it is measured so much, which is one that bit.
    pub fn doses(&self, id: &str, range: std::ops::Range<f64>) -> Value {
        let dose = self.dose(id, true);
        let measured = dose["measured"].as_f64().unwrap();
        assert!(range.contains(&measured), "{dose}");
        dose
    }

    /// Its dose after so many looks.
    pub fn looked_at(&self, id: &str, samples: u64) -> Value {
        wait_for("looks", || {
            let dose = self.fault(id)["dose"].clone();
            (dose["samples"].as_u64() >= Some(samples)).then_some(dose)
        })
    }

    /// Reverts it, which leaves nothing.
    pub fn undo(&self, id: &str) {
        self.revert(id);
        self.assert_clean();
    }

    pub fn assert_reverted(&self, id: &str, reason: &str) {
        let fault = self.fault(id);
        let end = (&fault["state"], &fault["revert_reason"]);
        assert_eq!(end, (&json!("reverted"), &json!(reason)));
    }

    pub fn revert(&self, id: &str) {
        let (status, fault) = self.call("DELETE", &format!("/v1/faults/{id}"), None);
        let expected = (200, &json!("reverted"));
        assert_eq!((status, &fault["state"]), expected, "{fault}");
        assert!(fault["dose"]["how"].is_string(), "{fault}");
    }

    /// The differences from the baseline, settled: a process that is just ending is no difference.
    pub fn differences(&self) -> Vec<String> {
        let (status, fingerprint) = self.call("GET", "/v1/fingerprint", None);
        assert_eq!(status, 200, "{fingerprint}");
        serde_json::from_value(fingerprint["differences"].clone()).unwrap()
    }

    pub fn assert_clean(&self) {
        assert_eq!(self.differences(), Vec::<String>::new());
    }

    pub fn service(&self) -> String {
        let (_, health) = self.call("GET", "/v1/health", None);
        health["service"].as_str().unwrap().to_owned()
    }

    pub fn fault(&self, id: &str) -> Value {
        let (_, faults) = self.call("GET", "/v1/faults", None);
        let fault = faults.as_array().unwrap().iter().find(|fault| fault["id"] == id);
        let fault = fault.unwrap_or_else(|| panic!("no fault {id} in {faults}"));
        fault.clone()
    }

    /// `PID STATE ARGUMENTS` of the role's processes.
    pub fn role_processes(&self) -> Vec<String> {
        let all = self.run("ps -eo pid=,stat=,args=");
        let of_role = |line: &&str| line.contains("sleep 10000") || line.contains("start.sh");
        let lines = all.lines().filter(of_role).filter(|line| !line.contains("exec-role"));
        lines.map(|line| line.trim().to_owned()).collect()
    }

    /// True if one of the role's processes has `words` in its arguments.
    pub fn is_running(&self, words: &str) -> bool {
        self.role_processes().iter().any(|line| line.contains(words))
    }

    /// Their pids.
    pub fn role_pids(&self) -> Vec<String> {
        let pid = |line: &String| line.split(' ').next().unwrap().to_owned();
        self.role_processes().iter().map(pid).collect()
    }

    /// Waits for the three processes of the idle role.
    pub fn wait_for_role(&self) {
        wait_until("the role's processes", || self.role_processes().len() == 3);
    }

    /// Kills the agent proper and waits until another is ready.
    pub fn kill_agent(&self) {
        let agent = self.agent_pid();
        self.run(&format!("kill -9 {agent}"));
        wait_until("another agent", || {
            let now = self.agent_pid();
            !now.is_empty() && now != agent
        });
        self.wait_until_ready();
    }

    /// Ends the machine as a cut of its power does, and starts it.
    pub fn lose_power(&self) {
        docker(&["kill", &self.container.name]).unwrap();
        docker(&["start", &self.container.name]).unwrap();
        self.wait_until_ready();
    }

    /// Ends the machine by SIGTERM, which is to go well, and starts it.
    pub fn end_and_start(&self) {
        let name = self.container.name.as_str();
        docker(&["stop", "--time", "20", name]).unwrap();
        let code = docker(&["inspect", "--format", "{{.State.ExitCode}}", name]);
        assert_eq!(code.unwrap(), "0");
        docker(&["start", name]).unwrap();
        self.wait_until_ready();
    }

    /// The interface with the data address.
    pub fn data_interface(&self) -> String {
        let data = &self.container.data_address;
        self.run(&format!("ip -br -4 address show to {data}/32 | cut -d@ -f1"))
    }

    /// The pid of the agent proper, the child of process 1.
    pub fn agent_pid(&self) -> String {
        let script = "for p in $(ps -C nodeagent -o pid=); do \
                      [ $(ps -o ppid= -p $p) -eq 1 ] && echo $p; done; true";
        self.run(script)
    }
}

fn write_files(
    authority: &Authority,
    data: &str,
    control: &str,
    role: &str,
    more: &str,
) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let own = authority.server(control);
    let config = format!(
        "experiment = \"test\"\nmachine = \"web-1\"\ntier = \"web\"\nrole = \"sleeper\"\n\
         listen = \"{control}:{AGENT_PORT}\"\ndata_address = \"{data}\"\n\
         data_networks = [\"{DATA}.0/25\"]\nnic_mbps = {NIC_MBPS}\n{more}\n\
         [tls]\nca = \"/test/ca.pem\"\ncert = \"/test/cert.pem\"\nkey = \"/test/key.pem\"\n"
    );
    std::fs::create_dir(at("role")).unwrap();
    for (name, text) in [
        ("ca.pem", authority.pem.as_str()),
        ("cert.pem", &own.cert),
        ("key.pem", &own.key),
        ("agent.toml", &config),
        ("login", LOGIN),
        ("role/start.sh", &format!("#!/bin/sh\n{role}")),
        (
            "role/ready.sh",
            "#!/bin/sh\ngrep -e ^Cap -e ^NoNewPrivs: /proc/self/status >/tmp/probed\n\
             ! [ -e /tmp/down ]\n",
        ),
    ] {
        std::fs::write(at(name), text).unwrap();
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    directory
}

/// A container as the platform makes a machine: capabilities, caps, and the agent as process 1.
fn create(name: &str, data: &str, files: &Path) {
    let agent = PathBuf::from(env!("CARGO_BIN_EXE_nodeagent"));
    let mount = |from: &Path, to: &str| format!("{}:{to}:ro", from.display());
    let (agent, role) = (
        mount(&agent, "/opt/sparecraft/bin/nodeagent"),
        mount(&files.join("role"), "/opt/sparecraft/role"),
    );
    let files = mount(files, "/test");
    let mut words = vec!["create", "--name", name, "--network", DATA_NETWORK];
    words.extend(["--ip", data, "--cgroupns", "private"]);
    words.extend(["--cap-add", "NET_ADMIN", "--cap-add", "SYS_ADMIN"]);
    words.extend(["--security-opt", "apparmor=unconfined"]);
    words.extend(["--cpu-period", "10000", "--cpu-quota", "6000"]);
    if Path::new("/dev/fuse").exists() {
        words.extend(["--device", "/dev/fuse"]);
    }
    words.extend(["--memory", "256m", "--memory-swap", "256m"]);
    words.extend(["-v", &agent, "-v", &role, "-v", &files]);
    words.extend(["-e", "SPARECRAFT_AGENT_CONFIG=/test/agent.toml", IMAGE]);
    words.push("/opt/sparecraft/bin/nodeagent");
    docker(&words).unwrap();
}
