package provider

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"sparecraft/infra/provider/internal/engine"
)

const iperfCookieBytes = 37

func freePort(t *testing.T) string {
	t.Helper()
	listener := listen(t, "0")
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

func listen(t *testing.T, port string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func TestAccMachine_HasWhatItWasGivenAndCanBeImported(t *testing.T) {
	port := freePort(t)
	base, err := docker(t).ImageInspect(t.Context(), baseImage)
	if err != nil {
		t.Fatal(err)
	}
	config := machineConfig(map[string]string{
		"image":           strconv.Quote(base.ID),
		"published_ports": "{ 80 = " + port + " }",
		"environment":     `{ WIKI = "real", EMPTY = "" }`,
		"files": `{
			"/etc/sparecraft/tls/key.pem" = { content = "secret", mode = "0600" }
			"/etc/sparecraft/role.env"    = { content = "A=1\n" }
		}`,
	})
	acceptance(
		t,
		resource.TestStep{
			Config: config,
			Check: resource.ComposeTestCheckFunc(
				status(t, container.StateRunning),
				resource.TestCheckResourceAttr(machineAddr, "running", "true"),
				resource.TestCheckResourceAttr(machineAddr, "container_name", machineName),
				resource.TestCheckResourceAttr(machineAddr, "files_sha256./etc/sparecraft/role.env",
					"91d6a3d55e9fea7911c537afae6607c77fa8bc0f3a76c375e104ac5a8cfa84db"),
				inspected(t, func(found container.InspectResponse) error { return isMachine(t, found, port) }),
				inspected(t, func(found container.InspectResponse) error { return hasFiles(t, found.ID) }),
			),
		},
		resource.TestStep{Config: config, PlanOnly: true},
		resource.TestStep{
			ResourceName: machineAddr, ImportState: true, ImportStateId: machineName, ImportStateVerify: true,
		},
	)
}

// isMachine compares what Docker was told with what the configuration says.
func isMachine(t *testing.T, found container.InspectResponse, port string) error {
	hardware, err := docker(t).Hardware(t.Context(), baseImage, experiment)
	if err != nil {
		return err
	}
	device := hardware.Disk
	host := found.HostConfig
	got := fmt.Sprintln(
		host.CPUPeriod,
		host.CPUQuota,
		host.Memory,
		host.MemorySwap,
		host.CgroupnsMode,
		host.CapAdd,
		host.BlkioDeviceReadBps,
		host.BlkioDeviceWriteBps,
		host.PortBindings["80/tcp"],
		found.Config.Hostname,
		found.Config.Labels[engine.LabelExperiment],
		found.Config.Labels[engine.LabelMachine],
		found.Config.Labels[engine.LabelRole],
		found.Config.Labels[engine.LabelTier],
	)
	want := fmt.Sprintln(
		10000,
		5000,
		64<<20,
		64<<20,
		container.CgroupnsModePrivate,
		[]string{"CAP_NET_ADMIN", "CAP_SYS_ADMIN"},
		"["+device+":83886080]",
		"["+device+":83886080]",
		"[{127.0.0.1 "+port+"}]",
		"one",
		experiment,
		"one",
		"sleeper",
		"web",
	)
	if got != want {
		return fmt.Errorf("expected %s\ncame %s", want, got)
	}
	addresses := map[string]string{"data": "198.18.240.11", "control": "198.19.240.11"}
	for side, address := range addresses {
		endpoint := found.NetworkSettings.Networks["sc-"+experiment+"-"+side]
		if endpoint == nil || endpoint.IPAddress != address {
			return fmt.Errorf("%s: expected %s, got %+v", side, address, endpoint)
		}
	}
	return nil
}

func hasFiles(t *testing.T, id string) error {
	want := map[string]engine.File{
		"/etc/sparecraft/tls/key.pem": {Content: "secret", Mode: 0o600},
		"/etc/sparecraft/role.env":    {Content: "A=1\n", Mode: 0o644},
	}
	for name, file := range want {
		got, err := docker(t).GetFile(t.Context(), id, name)
		if err != nil || got != file {
			return fmt.Errorf("%s: expected %+v, got %+v, %w", name, file, got, err)
		}
	}
	stat, err := docker(t).ContainerStatPath(t.Context(), id, "/etc/sparecraft/tls")
	if err != nil || stat.Mode.Perm() != 0o755 {
		return fmt.Errorf("/etc/sparecraft/tls: expected mode 0755, got %o, %w", stat.Mode.Perm(), err)
	}
	return nil
}

func TestAccMachine_ChangesItsLimitsInPlace(t *testing.T) {
	same := sameMachine(t)
	acceptance(
		t,
		resource.TestStep{Config: machineConfig(), Check: same},
		resource.TestStep{
			Config:           machineConfig(map[string]string{"cpus": "0.33333", "memory_mb": "96"}),
			ConfigPlanChecks: expect(machineAddr, plancheck.ResourceActionUpdate),
			Check: resource.ComposeTestCheckFunc(
				same,
				inspected(t, func(found container.InspectResponse) error {
					if found.HostConfig.CPUQuota != 3333 || found.HostConfig.Memory != 96<<20 ||
						!found.State.Running {
						return fmt.Errorf(
							"expected a running machine with quota 3333 and 96 MB, got %+v",
							found.HostConfig.Resources,
						)
					}
					return nil
				}),
			),
		},
		resource.TestStep{
			Config:           machineConfig(map[string]string{"nic_mbps": "100"}),
			ConfigPlanChecks: expect(machineAddr, plancheck.ResourceActionDestroyBeforeCreate),
		},
	)
}

func TestAccMachine_KilledFrozenOrRemovedIsDrift(t *testing.T) {
	long(t)
	own, same := docker(t), sameMachine(t)
	behindTerraform := func(act func() error) func() {
		return func() {
			if err := act(); err != nil {
				t.Fatal(err)
			}
		}
	}
	running := resource.ComposeTestCheckFunc(same, status(t, container.StateRunning))
	acceptance(
		t,
		resource.TestStep{Config: machineConfig(), Check: running},
		resource.TestStep{
			PreConfig: behindTerraform(
				func() error { return own.ContainerKill(t.Context(), machineName, "KILL") },
			),
			Config:           machineConfig(),
			ConfigPlanChecks: expect(machineAddr, plancheck.ResourceActionUpdate),
			Check:            running,
		},
		resource.TestStep{
			PreConfig: behindTerraform(
				func() error { return own.ContainerPause(t.Context(), machineName) },
			),
			Config:           machineConfig(),
			ConfigPlanChecks: expect(machineAddr, plancheck.ResourceActionUpdate),
			Check:            running,
		},
		resource.TestStep{
			PreConfig: behindTerraform(func() error {
				return own.ContainerRemove(t.Context(), machineName, container.RemoveOptions{Force: true})
			}),
			Config:           machineConfig(),
			ConfigPlanChecks: expect(machineAddr, plancheck.ResourceActionCreate),
			Check:            status(t, container.StateRunning),
		},
	)
}

func TestAccMachine_StandbyIsCreatedAndStartsAndStopsInPlace(t *testing.T) {
	same := sameMachine(t)
	standby := machineConfig(map[string]string{"standby": "true"})
	acceptance(
		t,
		resource.TestStep{
			Config: standby,
			Check:  resource.ComposeTestCheckFunc(same, status(t, container.StateCreated)),
		},
		resource.TestStep{
			ResourceName: machineAddr, ImportState: true, ImportStateId: machineName, ImportStateVerify: true,
			ImportStateVerifyIgnore: []string{"image"}, // a tag in the configuration, an id after import
		},
		resource.TestStep{
			Config:           machineConfig(),
			ConfigPlanChecks: expect(machineAddr, plancheck.ResourceActionUpdate),
			Check:            resource.ComposeTestCheckFunc(same, status(t, container.StateRunning)),
		},
		resource.TestStep{
			Config:           standby,
			ConfigPlanChecks: expect(machineAddr, plancheck.ResourceActionUpdate),
			Check:            resource.ComposeTestCheckFunc(same, status(t, container.StateExited)),
		},
		resource.TestStep{ // one that ran before is a standby, too
			ResourceName: machineAddr, ImportState: true, ImportStateId: machineName, ImportStateVerify: true,
			ImportStateVerifyIgnore: []string{"image"},
		},
		resource.TestStep{
			Config: machineConfig(map[string]string{
				"standby": "true", "data": `{ network = fleet_network.data.id, address = "198.18.99.1" }`,
			}),
			PlanOnly:    true,
			ExpectError: says("Address 198.18.99.1 is not in its network"),
		},
	)
}

func TestAccMachine_PortTakenIsNamedAndNothingIsLeftBehind(t *testing.T) {
	own, taken := docker(t), listen(t, "0")
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	config := machineConfig(map[string]string{"published_ports": "{ 80 = " + port + " }"})
	acceptance(
		t,
		resource.TestStep{Config: config, ExpectError: says("Port " + port + " on 127.0.0.1 is taken")},
		resource.TestStep{
			PreConfig: func() {
				if _, err := own.ContainerInspect(t.Context(), machineName); !cerrdefs.IsNotFound(err) {
					t.Errorf("expected no container after the failed apply, got %v", err)
				}
				if err := taken.Close(); err != nil {
					t.Error(err)
				}
			},
			Config: config,
			Check:  status(t, container.StateRunning),
		},
	)
}

func TestAccMachine_PublishedPortLeadsToTheDataAddressAlsoAfterARestart(t *testing.T) {
	long(t)
	own, port := docker(t), freePort(t)
	config := machineConfig(map[string]string{
		"published_ports": "{ 80 = " + port + " }",
		"command":         `["iperf3", "--server", "--bind", "198.18.240.11", "--port", "80"]`,
	})
	answers := func(*terraform.State) error { return iperfAnswers(t, "127.0.0.1:"+port) }
	restart := func() {
		if err := own.ContainerKill(t.Context(), machineName, "KILL"); err != nil {
			t.Fatal(err)
		}
	}
	acceptance(
		t,
		resource.TestStep{Config: config, Check: answers},
		resource.TestStep{PreConfig: restart, Config: config, Check: answers},
	)
}

// iperfAnswers asks until the server listens: it sends a session's cookie and expects its reply.
func iperfAnswers(t *testing.T, address string) error {
	deadline := time.Now().Add(time.Minute)
	var last error
	for time.Now().Before(deadline) {
		if last = iperfHello(address); last == nil {
			return nil
		}
		select {
		case <-t.Context().Done():
			return t.Context().Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("expected iperf3 to answer on %s: %w", address, last)
}

func iperfHello(address string) error {
	connection, err := net.DialTimeout("tcp4", address, time.Second)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := connection.Write(make([]byte, iperfCookieBytes)); err != nil {
		return err
	}
	_, err = io.ReadFull(connection, make([]byte, 1))
	return err
}

func TestAccMachine_ProcessThatIgnoresSIGTERMIsStillRemoved(t *testing.T) {
	long(t)
	config := machineConfig(map[string]string{
		"command": `["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]`,
	})
	acceptance(t, resource.TestStep{Config: config, Check: status(t, container.StateRunning)})
}

func TestAccMachine_RefusesWithOneClearMessage(t *testing.T) {
	cases := map[string]struct {
		change  map[string]string
		message string
	}{
		"an image that is not there": {
			map[string]string{
				"image": `"sparecraft/nowhere:local"`,
			}, "Image sparecraft/nowhere:local is missing",
		},
		"a process 1 that ends": {
			map[string]string{
				"command": `["sh", "-c", "echo no configuration; exit 7"]`,
			}, "exit code 7; its last output: no configuration",
		},
		"an address outside its network": {
			map[string]string{
				"data": `{ network = fleet_network.data.id, address = "198.18.99.1" }`,
			}, "Address 198.18.99.1 is not in its network",
		},
		"an address that is the host's": {
			map[string]string{
				"data": `{ network = fleet_network.data.id, address = "198.18.240.1" }`,
			}, "An address of machine one is taken",
		},
		"a cap below a millisecond per period": {
			map[string]string{"cpus": "0.05"},
			"cpus value must be between 0.1",
		},
		"a mode that is not octal": {
			map[string]string{
				"files": `{ "/etc/x" = { content = "", mode = "644" } }`,
			}, "expected an octal file mode such as 0644",
		},
		"a relative path": {
			map[string]string{"files": `{ "etc/x" = { content = "" } }`},
			"expected an absolute path of a file",
		},
		"a port beyond 65535": {
			map[string]string{"published_ports": "{ 70000 = 80 }"},
			"expected a TCP port from 1 to 65535",
		},
		"an IPv6 data address": {
			map[string]string{"data": `{ network = "x", address = "::1" }`},
			"expected an IPv4 address such as",
		},
	}
	for name, refused := range cases {
		t.Run(name, func(t *testing.T) {
			acceptanceWatching( // a busy host takes its time with a process that ends
				t, time.Minute,
				resource.TestStep{Config: machineConfig(refused.change), ExpectError: says(refused.message)},
			)
		})
	}
}

func TestAccMachine_ForeignContainerOfTheSameNameIsNotTouched(t *testing.T) {
	own := docker(t)
	foreign, err := own.ContainerCreate(
		t.Context(),
		&container.Config{Image: baseImage, Cmd: []string{"true"}},
		nil,
		nil,
		nil,
		machineName,
	)
	if err != nil {
		t.Fatal(err)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(nil, Settle),
		Steps: []resource.TestStep{{
			Config: machineConfig(), ExpectError: says("Container " + machineName + " exists already"),
		}},
	})
	if err := own.ContainerRemove(t.Context(), foreign.ID, container.RemoveOptions{Force: true}); err != nil {
		t.Errorf("expected the foreign container to be there still: %v", err)
	}
}

func TestAccMachine_DockerNotRunningIsOneDiagnostic(t *testing.T) {
	docker(t)
	t.Setenv("DOCKER_HOST", "unix:///dev/null/docker.sock")
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(nil, Settle),
		Steps: []resource.TestStep{{
			Config: machineConfig(), ExpectError: says("Docker does not answer"),
		}},
	})
}
