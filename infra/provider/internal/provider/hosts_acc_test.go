package provider

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/terraform-plugin-testing/config"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

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

// stackAsModule is the local stack from wherever Terraform or this process is: above the root is the root.
func stackAsModule(t *testing.T) string {
	t.Helper()
	stack, err := filepath.Abs("../../../stacks/local")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Repeat("../", 24) + strings.TrimPrefix(stack, "/")
}

// poolConfig is a fleet of the stack: two machines that speak to each other and an arbiter, all of it on
// host a but for the second machine, whose host is reached by ssh.
func poolConfig(t *testing.T, a, b string) string {
	return fmt.Sprintf(`
module "fleet" {
  source        = %q
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
}
`, stackAsModule(t), poolExperiment, poolData, poolControl, a, underlays["a"], b, underlays["b"])
}

// TestAccHosts_OneFleetOverTwoEngines is one test, as its engines take their time.
func TestAccHosts_OneFleetOverTwoEngines(t *testing.T) {
	engines := twoEngines(t)
	server := sshtest.Start(t)
	t.Setenv("TF_ACC_PROVIDER_NAMESPACE", "sparecraft")
	text := poolConfig(t, "unix://"+engines["a"].socket(), "ssh://"+server.Address+engines["b"].socket())
	a, b := engines["a"], engines["b"]
	resource.Test(t, resource.TestCase{
		Steps: withModule(t, text,
			resource.TestStep{Check: resource.ComposeTestCheckFunc(
				machinesAre(t, a, "arbiter-pages", "influxdb-1", "pages-1"),
				machinesAre(t, b, "pages-2"),
				answered(t, a, "pages-1", "198.18.209.13:8080"),
				answered(t, b, "pages-2", "198.18.208.10:8080"),
				packetsFitTheUnderlay(t, a),
				imageIsCopied(t, a, b),
			)},
			resource.TestStep{ // the interface is left, and the next apply takes it over
				PreConfig: killed(t, b, func() error {
					return b.ContainerRemove(t.Context(), vxlanName(t, b), container.RemoveOptions{Force: true})
				}),
				Check: answered(t, a, "pages-1", "198.18.209.13:8080"),
			},
			resource.TestStep{ // the engine does not start it again; the next apply makes another
				PreConfig: killed(t, b, func() error {
					return b.ContainerKill(t.Context(), vxlanName(t, b), "KILL")
				}),
				Check: answered(t, b, "pages-2", "198.18.208.10:8080"),
			},
		),
		CheckDestroy: func(*terraform.State) error { return hostsAreEmpty(t, a, b) },
	})
}

// withModule has the configuration in a folder and the providers stated by each step, as only then
// Terraform is initialised with it, and finds the module.
func withModule(t *testing.T, text string, steps ...resource.TestStep) []resource.TestStep {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "main.tf"), text)
	for i := range steps {
		steps[i].ConfigDirectory = config.StaticDirectory(dir)
		steps[i].ProtoV6ProviderFactories = factories(time.Now)
	}
	return steps
}

func containerOf(machine string) string { return "sc-" + poolExperiment + "-" + machine }

func machinesAre(t *testing.T, on *ownEngine, names ...string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		found, err := on.ContainerList(t.Context(), container.ListOptions{})
		if err != nil {
			return err
		}
		present := map[string]bool{}
		for _, one := range found {
			if machine := one.Labels[engine.LabelMachine]; machine != "" {
				present[machine] = true
			}
		}
		for _, name := range names {
			if !present[name] || len(present) != len(names) {
				return fmt.Errorf("host %s: expected machines %v, came %v", on.name, names, present)
			}
		}
		return nil
	}
}

// answered sends a request from a machine to an address on the data network until the page comes.
func answered(t *testing.T, from *ownEngine, machine, address string) resource.TestCheckFunc {
	host, port, _ := strings.Cut(address, ":")
	ask := fmt.Sprintf(`exec 3<>/dev/tcp/%s/%s; printf 'GET /page.txt HTTP/1.1\r\nHost: pages\r\nConnection: close\r\n\r\n' >&3; cat <&3`, host, port)
	return func(*terraform.State) error {
		deadline, said := time.Now().Add(askLimit), ""
		for time.Now().Before(deadline) {
			// It fails until the machine listens.
			output, _ := exec.CommandContext(t.Context(), "docker", "--host", "unix://"+from.socket(), "exec",
				containerOf(machine), "timeout", "3", "bash", "-c", ask).CombinedOutput()
			said = string(output)
			if strings.Contains(said, page) {
				return nil
			}
			time.Sleep(200 * time.Millisecond)
		}
		return fmt.Errorf("%s: expected the page from %s, came: %s", machine, address, said)
	}
}

// packetsFitTheUnderlay sees that machines send packets that VXLAN need not cut.
func packetsFitTheUnderlay(t *testing.T, from *ownEngine) resource.TestCheckFunc {
	return func(*terraform.State) error {
		seen := sh(t, "docker", "--host", "unix://"+from.socket(), "exec", containerOf("pages-1"),
			"cat", "/sys/class/net/eth0/mtu")
		if strings.TrimSpace(seen) != "1450" {
			return fmt.Errorf("expected packets of 1450 bytes on the data network, came %s", seen)
		}
		return nil
	}
}

func imageIsCopied(t *testing.T, a, b *ownEngine) resource.TestCheckFunc {
	return func(*terraform.State) error {
		tag := "sparecraft/" + poolExperiment + "-pages:local"
		built, err := a.ImageInspect(t.Context(), tag)
		if err != nil {
			return err
		}
		copied, err := b.ImageInspect(t.Context(), tag)
		if err != nil || copied.ID != built.ID {
			return fmt.Errorf("expected image %s on host b, came %s, %w", built.ID, copied.ID, err)
		}
		return nil
	}
}

// vxlanName is the container that keeps the data network's end.
func vxlanName(t *testing.T, on *ownEngine) string {
	t.Helper()
	found, err := on.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range found {
		if strings.Contains(one.Names[0], "-vxlan-") {
			return strings.TrimPrefix(one.Names[0], "/")
		}
	}
	t.Fatalf("host %s: expected an end of a network, came %v", on.name, found)
	return ""
}

func killed(t *testing.T, on *ownEngine, act func() error) func() {
	return func() {
		before := sh(t, "ip", "-n", engineNames+on.name, "-o", "link", "show", "type", "vxlan")
		if err := act(); err != nil {
			t.Fatal(err)
		}
		if strings.Count(before, "\n") != 2 {
			t.Errorf("host %s: expected an end of each network, came %s", on.name, before)
		}
	}
}

func hostsAreEmpty(t *testing.T, hosts ...*ownEngine) error {
	for _, on := range hosts {
		containers, err := on.ContainerList(t.Context(), container.ListOptions{All: true})
		if err != nil || len(containers) > 0 {
			return fmt.Errorf("host %s: expected no container after destroy, came %v, %w", on.name, containers, err)
		}
		for _, kind := range []string{"vxlan", "bridge"} {
			if left := sh(t, "ip", "-n", engineNames+on.name, "-o", "link", "show", "type", kind); left != "" {
				return fmt.Errorf("host %s: expected no %s after destroy, came %s", on.name, kind, left)
			}
		}
	}
	return nil
}
