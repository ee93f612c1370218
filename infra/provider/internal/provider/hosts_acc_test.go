package provider

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"sparecraft/infra/provider/internal/engine"
	"sparecraft/infra/provider/internal/sshtest"
)

const (
	poolExperiment = "tst-hosts"
	poolData       = "198.18.208.0/20"
	poolControl    = "198.19.208.0/20"
	page           = "Seen from another host."
	askLimit       = 60 * time.Second
)

// poolStack is the local stack with a fleet over two hosts: all of it is on host a but for one of two
// machines that speak to each other. It has the provider that is tested, and a state of its own.
type poolStack struct {
	t           *testing.T
	environment []string
	state       string
	variables   string
}

func newPoolStack(t *testing.T, a, b string) poolStack {
	t.Helper()
	dir := t.TempDir()
	sh(t, "go", "build", "-o", filepath.Join(dir, "terraform-provider-fleet"), "../..")
	put(t, filepath.Join(dir, "terraform.rc"), fmt.Sprintf(
		"provider_installation {\n  dev_overrides { \"sparecraft/fleet\" = %q }\n}\n", dir))
	put(t, filepath.Join(dir, "fleet.tfvars"), fmt.Sprintf(`
experiment    = %q
scheme        = "on-prem"
grafana_image = null
roles_dirs    = ["infra/roles", "infra/stacks/shared/fixtures/hosts"]
data_cidr     = %q
control_cidr  = %q
tiers = {
  pages = { role = "pages", nodes = 2, cpus = 0.5, memory_mb = 128, nic_mbps = 200, disk_mbps = 80 }
}
arbiters = { pages = {} }
hosts = [
  { name = "a", address = %q, underlay = %q },
  { name = "b", address = %q, underlay = %q },
]
`, poolExperiment, poolData, poolControl, a, underlays["a"], b, underlays["b"]))
	return poolStack{
		t: t, state: filepath.Join(dir, "terraform.tfstate"), variables: filepath.Join(dir, "fleet.tfvars"),
		environment: append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "terraform.rc"),
			"TF_DATA_DIR="+filepath.Join(dir, "data"), "TF_WORKSPACE=default", "CHECKPOINT_DISABLE=1"),
	}
}

// terraform runs one command over the stack, and fails the test unless it ends with the code.
func (s poolStack) terraform(code int, words ...string) {
	s.t.Helper()
	words = append(append([]string{"-chdir=../../../stacks/local"}, words...),
		"-input=false", "-no-color", "-state="+s.state, "-var-file="+s.variables)
	command := exec.Command(os.Getenv("TF_ACC_TERRAFORM_PATH"), words...) // also after the test's time is up
	command.Env = s.environment
	said, err := command.CombinedOutput()
	if command.ProcessState == nil || command.ProcessState.ExitCode() != code {
		s.t.Fatalf("terraform %s: expected code %d, got %v:\n%s", words[1], code, err, said)
	}
}

const (
	planIsEmpty = 0
	planHasWork = 2 // of -detailed-exitcode
)

func (s poolStack) plan(code int) { s.t.Helper(); s.terraform(code, "plan", "-detailed-exitcode") }

func (s poolStack) apply() { s.t.Helper(); s.terraform(0, "apply", "-auto-approve") }

func (s poolStack) destroy() { s.t.Helper(); s.terraform(0, "destroy", "-auto-approve") }

// One test, as its engines take their time.
func TestAccHosts_OneFleetOverTwoEngines(t *testing.T) {
	long(t)
	engines := twoEngines(t)
	a, b := engines["a"], engines["b"]
	server := sshtest.Start(t)
	stack := newPoolStack(t, "unix://"+a.socket(), "ssh://"+server.Address+b.socket())
	crosses := func() {
		t.Helper()
		answered(t, a, "pages-1", "198.18.209.12:8080") // pages-2
		answered(t, b, "pages-2", "198.18.208.10:8080") // the arbiter
	}

	stack.apply()
	machinesAre(t, a, "arbiter-pages", "influxdb-1", "pages-1")
	machinesAre(t, b, "pages-2")
	imageIsCopied(t, a, b)
	packetsFitTheUnderlay(t, a)
	crosses()
	stack.plan(planIsEmpty)

	// The interface of a container that is removed stays, and the next apply takes it over.
	if err := b.ContainerRemove(t.Context(), vxlanName(t, b), container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	// The engine does not start one again that was killed through it.
	if err := a.ContainerKill(t.Context(), vxlanName(t, a), "KILL"); err != nil {
		t.Fatal(err)
	}
	stack.plan(planHasWork)
	stack.apply()
	crosses()

	stack.destroy()
	isEmpty(t, a)
	isEmpty(t, b)
}

func containerOf(machine string) string { return "sc-" + poolExperiment + "-" + machine }

func machinesAre(t *testing.T, on *ownEngine, names ...string) {
	t.Helper()
	found, err := on.ContainerList(t.Context(), container.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var present []string
	for _, one := range found {
		if machine := one.Labels[engine.LabelMachine]; machine != "" {
			present = append(present, machine)
		}
	}
	slices.Sort(present)
	if !slices.Equal(present, names) {
		t.Fatalf("host %s: expected machines %v, got %v", on.name, names, present)
	}
}

// inMachine runs a command in a machine.
func inMachine(t *testing.T, on *ownEngine, machine string, words ...string) (string, error) {
	t.Helper()
	words = append([]string{"--host", "unix://" + on.socket(), "exec", containerOf(machine)}, words...)
	said, err := exec.CommandContext(t.Context(), "docker", words...).CombinedOutput()
	return string(said), err
}

// answered sends a request from a machine to an address on the data network until the page comes.
func answered(t *testing.T, from *ownEngine, machine, address string) {
	t.Helper()
	host, port, _ := strings.Cut(address, ":")
	ask := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s; printf '%s' >&3; cat <&3", host, port,
		`GET /page.txt HTTP/1.1\r\nHost: pages\r\nConnection: close\r\n\r\n`)
	deadline, said := time.Now().Add(askLimit), ""
	for time.Now().Before(deadline) {
		// It fails until the machine listens.
		said, _ = inMachine(t, from, machine, "timeout", "3", "bash", "-c", ask)
		if strings.Contains(said, page) {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("%s: expected the page from %s, got: %s", machine, address, said)
}

// packetsFitTheUnderlay sees that machines send packets that VXLAN need not cut.
func packetsFitTheUnderlay(t *testing.T, on *ownEngine) {
	t.Helper()
	said, err := inMachine(t, on, "pages-1", "cat", "/sys/class/net/eth0/mtu")
	if err != nil || strings.TrimSpace(said) != "1450" {
		t.Errorf("expected packets of 1450 bytes on the data network, got %s, %v", said, err)
	}
}

func imageIsCopied(t *testing.T, a, b *ownEngine) {
	t.Helper()
	const tag = "sparecraft/pages:local"
	built, err := a.ImageInspect(t.Context(), tag)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := b.ImageInspect(t.Context(), tag)
	if err != nil || copied.ID != built.ID {
		t.Errorf("expected image %s on host b, got %s, %v", built.ID, copied.ID, err)
	}
}

// vxlanName is the container that keeps the data network's end.
func vxlanName(t *testing.T, on *ownEngine) string {
	t.Helper()
	found, err := on.ContainerList(t.Context(), container.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range found {
		if strings.Contains(one.Names[0], "-vxlan-") {
			names = append(names, strings.TrimPrefix(one.Names[0], "/"))
		}
	}
	if len(names) != 2 {
		t.Fatalf("host %s: expected an end of each network, got %v", on.name, names)
	}
	return slices.Min(names) // the data network has the lower number
}

func isEmpty(t *testing.T, on *ownEngine) {
	t.Helper()
	containers, err := on.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil || len(containers) > 0 {
		t.Errorf("host %s: expected no container after destroy, got %v, %v", on.name, containers, err)
	}
	for _, kind := range []string{"vxlan", "bridge"} {
		if left := sh(t, "ip", "-n", engineNames+on.name, "-o", "link", "show", "type", kind); left != "" {
			t.Errorf("host %s: expected no %s after destroy, got %s", on.name, kind, left)
		}
	}
}
