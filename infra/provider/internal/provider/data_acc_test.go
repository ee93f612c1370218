package provider

import (
	"strconv"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
)

const dataSources = `
data "fleet_host" "here" {}
data "fleet_machines" "there" {
  experiment = "tst-prov"
  depends_on = [fleet_machine.one]
}
data "fleet_machines" "none" {
  experiment = "tst-nobody"
}
`

func TestAccData_TellsTheHostAndTheMachinesOnIt(t *testing.T) {
	info, err := docker(t).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := func(attribute, value string) resource.TestCheckFunc {
		return resource.TestCheckResourceAttr("data.fleet_machines.there", "machines."+attribute, value)
	}
	acceptance(t,
		resource.TestStep{
			Config: machineConfig() + dataSources,
			Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttr("data.fleet_host.here", "name", onlyHost),
				resource.TestCheckResourceAttr("data.fleet_host.here", "cpus", strconv.Itoa(info.NCPU)),
				resource.TestCheckResourceAttr("data.fleet_host.here", "engine_version", info.ServerVersion),
				there("%", "1"), there("one.role", "sleeper"), there("one.tier", "web"),
				there("one.data_address", "198.18.240.11"), there("one.running", "true"),
				resource.TestCheckResourceAttr("data.fleet_machines.none", "machines.%", "0"),
			),
		},
		resource.TestStep{
			Config:      `data "fleet_host" "there" { name = "elsewhere" }`,
			ExpectError: says("There is no host elsewhere"),
		},
	)
}

func TestAccMachine_FileThatWasChangedOrRemovedInsideIsDrift(t *testing.T) {
	long(t)
	own := docker(t)
	config := machineConfig(map[string]string{"files": `{
		"/etc/sparecraft/a.env" = { content = "A=1\n" }
		"/etc/sparecraft/b.env" = { content = "B=1\n", mode = "0600" }
	}`})
	inside := func(script string) func() {
		return func() {
			made, err := own.ContainerExecCreate(t.Context(), machineName, container.ExecOptions{
				Cmd: []string{"sh", "-c", script}, AttachStdout: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			attached, err := own.ContainerExecAttach(t.Context(), made.ID, container.ExecAttachOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer attached.Close()
			if _, err := attached.Reader.ReadString(0); err == nil {
				t.Fatal("expected the end of what it says")
			}
		}
	}
	replaced := expect(machineAddr, plancheck.ResourceActionDestroyBeforeCreate)
	acceptance(t,
		resource.TestStep{Config: config},
		resource.TestStep{Config: config, PlanOnly: true},
		resource.TestStep{
			PreConfig: inside("echo A=2 >/etc/sparecraft/a.env"), Config: config, ConfigPlanChecks: replaced,
		},
		resource.TestStep{
			PreConfig: inside("rm /etc/sparecraft/b.env"), Config: config, ConfigPlanChecks: replaced,
		},
		resource.TestStep{
			PreConfig: inside("chmod 644 /etc/sparecraft/b.env"), Config: config, ConfigPlanChecks: replaced,
		},
	)
}

func TestAccMachine_TakesNoLongerThanItsTimeouts(t *testing.T) {
	long(t)
	acceptance(t,
		resource.TestStep{
			Config:      machineConfig(map[string]string{"timeouts": `{ create = "1ms" }`}),
			ExpectError: says("Docker took too long to create machine one"),
		},
		resource.TestStep{
			Config:      machineConfig(map[string]string{"timeouts": `{ create = "soon" }`}),
			ExpectError: says("Invalid Attribute Value Time Duration"),
		},
		resource.TestStep{Config: machineConfig(map[string]string{"timeouts": `{ create = "2m", delete = "90s" }`})},
	)
}
