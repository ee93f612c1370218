package provider

import (
	"errors"
	"fmt"
	"testing"

	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"sparecraft/infra/provider/internal/engine"
)

const networkAddr = "fleet_network.data"

func TestAccNetwork_IsMadeImportedAndMadeAgainWhenRemoved(t *testing.T) {
	own := docker(t)
	acceptance(
		t,
		resource.TestStep{
			Config: networks(),
			Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttr(networkAddr, "cidr", dataCIDR),
				resource.TestCheckResourceAttrSet(networkAddr, "id"),
			),
		},
		resource.TestStep{
			ResourceName: networkAddr, ImportState: true, ImportStateId: "sc-" + experiment + "-data", ImportStateVerify: true,
		},
		resource.TestStep{
			PreConfig: func() {
				if err := own.NetworkRemove(t.Context(), "sc-"+experiment+"-data"); err != nil {
					t.Fatal(err)
				}
			},
			Config:           networks(),
			ConfigPlanChecks: expect(networkAddr, plancheck.ResourceActionCreate),
		},
	)
}

func TestAccNetwork_RangeTakenNamesWhoHasIt(t *testing.T) {
	removeOther := otherNetwork(t, docker(t))
	defer removeOther()
	acceptance(
		t,
		resource.TestStep{
			Config:      networks(),
			ExpectError: says("networks in it: " + otherName + " (" + dataCIDR + ")"),
		},
	)
}

func otherNetwork(t *testing.T, own *engine.Engine) func() {
	t.Helper()
	other, err := own.NetworkCreate(t.Context(), otherName, network.CreateOptions{
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: dataCIDR}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := own.NetworkRemove(t.Context(), other.ID); err != nil {
			t.Error(err)
		}
	}
}

func TestAccNetwork_RefusesWhatIsNoNetwork(t *testing.T) {
	docker(t)
	for _, cidr := range []string{"198.18.240.1/24", "198.18.240.0", "fd00::/64", "all"} {
		config := `resource "fleet_network" "data" {
  name = "tst-prov-x"
  experiment = "tst-prov"
  cidr = "` + cidr + `"
}`
		acceptance(
			t,
			resource.TestStep{
				Config:      config,
				PlanOnly:    true,
				ExpectError: says("expected an IPv4 network such as"),
			},
		)
	}
}

func TestAccNetwork_IsLeftByAMachineThatStillRuns(t *testing.T) {
	long(t)
	own := docker(t)
	acceptance(t, resource.TestStep{
		Config:             machineConfig(),
		ExpectNonEmptyPlan: true, // a machine that lost its networks is drift
		Check: func(*terraform.State) error {
			if err := own.Leave(t.Context(), machineName); err != nil {
				return err
			}
			left, err := own.NetworkInspect(t.Context(), "sc-"+experiment+"-data", network.InspectOptions{})
			if err == nil && len(left.Containers) > 0 {
				err = fmt.Errorf("expected no endpoint, got %v", left.Containers)
			}
			return errors.Join(err, own.Leave(t.Context(), "sc-"+experiment+"-never-made"))
		},
	})
}
