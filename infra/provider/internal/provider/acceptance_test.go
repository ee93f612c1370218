package provider

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"sparecraft/infra/provider/internal/engine"
)

// The acceptance tests use these names and ranges only, so they can run beside a fleet that uses
// none of them.
const (
	experiment  = "tst-prov"
	dataCIDR    = "198.18.240.0/24"
	controlCIDR = "198.19.240.0/24"
	baseImage   = "sparecraft/base:bookworm"
	machineAddr = "fleet_machine.one"
	machineName = "sc-" + experiment + "-one"
	otherName   = "sc-" + experiment + "-other"
)

func TestMain(m *testing.M) {
	if os.Getenv("TF_ACC") != "" {
		if err := prepare(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "acceptance tests:", err)
			os.Exit(3)
		}
	}
	os.Exit(m.Run())
}

// prepare finds Terraform, and removes what an earlier run left when it was killed.
func prepare(ctx context.Context) error {
	if os.Getenv("TF_ACC_TERRAFORM_PATH") == "" {
		found, err := exec.LookPath("terraform")
		if err != nil {
			return fmt.Errorf("expected terraform on PATH: %w", err)
		}
		if err := os.Setenv("TF_ACC_TERRAFORM_PATH", found); err != nil {
			return err
		}
	}
	own, err := engine.Connect(ctx, engine.HostOfEnvironment(onlyHost, os.Getenv))
	if err != nil {
		return err
	}
	err = own.ContainerRemove(ctx, machineName, container.RemoveOptions{Force: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return err
	}
	for _, side := range []string{"data", "control", "other"} {
		name := "sc-" + experiment + "-" + side
		if err := own.NetworkRemove(ctx, name); err != nil && !cerrdefs.IsNotFound(err) {
			return err
		}
	}
	_, err = own.ImageRemove(ctx, imageTag, image.RemoveOptions{})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return err
	}
	return nil
}

func factories(now func() time.Time, settle time.Duration) map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"fleet": providerserver.NewProtocol6WithError(New("test", now, settle)()),
	}
}

// long skips a test that `make test` leaves to `make test-all`.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make test-all runs it")
	}
}

// docker is the tests' own view of the engine. Tests that Terraform will skip need none.
func docker(t *testing.T) *engine.Engine {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("acceptance tests need TF_ACC=1, Docker and Terraform")
	}
	connected, err := engine.Connect(t.Context(), engine.HostOfEnvironment(onlyHost, os.Getenv))
	if err != nil {
		t.Fatal(err)
	}
	return connected
}

func acceptance(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	acceptanceWatching(t, Settle, steps...)
}

// acceptanceWatching watches a machine's process 1 for so long after its start.
func acceptanceWatching(t *testing.T, settle time.Duration, steps ...resource.TestStep) {
	t.Helper()
	own := docker(t)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(time.Now, settle),
		Steps:                    steps,
		CheckDestroy:             func(*terraform.State) error { return nothingLeft(own) },
	})
}

func nothingLeft(own *engine.Engine) error {
	ctx := context.Background()
	if found, err := own.ContainerInspect(ctx, machineName); !cerrdefs.IsNotFound(err) {
		return fmt.Errorf(
			"expected no container %s after destroy, got %v, %w",
			machineName,
			found.ID,
			err,
		)
	}
	for _, side := range []string{"data", "control"} {
		name := "sc-" + experiment + "-" + side
		found, err := own.NetworkInspect(ctx, name, network.InspectOptions{})
		if !cerrdefs.IsNotFound(err) {
			return fmt.Errorf("expected no network %s after destroy, got %s, %w", name, found.ID, err)
		}
	}
	return nil
}

func networks() string {
	return fmt.Sprintf(`
resource "fleet_network" "data" {
  name = "sc-%[1]s-data"
  experiment = "%[1]s"
  cidr = "%[2]s"
}
resource "fleet_network" "control" {
  name = "sc-%[1]s-control"
  experiment = "%[1]s"
  cidr = "%[3]s"
  internal = true
}
`, experiment, dataCIDR, controlCIDR)
}

// machineConfig is one machine; later values win over the usual ones.
func machineConfig(extra ...map[string]string) string {
	attributes := map[string]string{
		"name": `"one"`, "experiment": `"` + experiment + `"`, "role": `"sleeper"`, "tier": `"web"`,
		"image": `"` + baseImage + `"`, "cpus": "0.5", "memory_mb": "64",
		"nic_mbps": "200", "disk_mbps": "80",
		"data":    `{ network = fleet_network.data.id, address = "198.18.240.11" }`,
		"control": `{ network = fleet_network.control.id, address = "198.19.240.11" }`,
		"command": `["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1 & wait; done"]`,
	}
	for _, more := range extra {
		for name, value := range more {
			attributes[name] = value
		}
	}
	var lines []string
	for name, value := range attributes {
		lines = append(lines, "  "+name+" = "+value)
	}
	return networks() + "resource \"fleet_machine\" \"one\" {\n" + strings.Join(lines, "\n") + "\n}\n"
}

// inspected runs a check on the machine's container.
func inspected(t *testing.T, check func(container.InspectResponse) error) resource.TestCheckFunc {
	return func(*terraform.State) error {
		found, err := docker(t).ContainerInspect(t.Context(), machineName)
		if err != nil {
			return err
		}
		return check(found)
	}
}

func status(t *testing.T, want container.ContainerState) resource.TestCheckFunc {
	return inspected(t, func(found container.InspectResponse) error {
		if found.State.Status != want {
			return fmt.Errorf("expected the container to be %s, got %s", want, found.State.Status)
		}
		return nil
	})
}

// sameMachine fails when the container's id is not the one that the first call saw.
func sameMachine(t *testing.T) resource.TestCheckFunc {
	var first string
	return inspected(t, func(found container.InspectResponse) error {
		if first == "" {
			first = found.ID
		}
		if found.ID != first {
			return fmt.Errorf("expected the same container %s, got %s", first, found.ID)
		}
		return nil
	})
}

func expect(address string, action plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{
		PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, action)},
	}
}

// says matches a message however Terraform wraps its lines.
func says(message string) *regexp.Regexp {
	words := strings.Fields(message)
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	return regexp.MustCompile(strings.Join(words, `[\s│]+`))
}
