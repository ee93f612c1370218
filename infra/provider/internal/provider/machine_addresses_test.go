package provider

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func TestAddressIsOfItsNetworkAndTakenOnce(t *testing.T) {
	found := network.Inspect{
		Name: "sc-x-data",
		IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: "198.18.240.0/24", Gateway: "198.18.240.1"}}},
		Containers: map[string]network.EndpointResource{
			"1": {Name: "someone", IPv4Address: "198.18.240.11/24"},
		},
	}
	for address, because := range map[string]string{
		"198.18.240.12": "",
		"198.18.240.11": "that of container someone",
		"198.18.240.1":  "that of the host itself",
		"198.18.240.0":  "expected an address of a host in 198.18.240.0/24",
		"198.18.241.12": "expected an address of a host in 198.18.240.0/24",
	} {
		problems := addressOf(found, "sc-x-", types.StringValue(address), path.Root("data"))
		if because == "" && len(problems) == 0 {
			continue
		}
		if len(problems) != 1 || !strings.Contains(problems[0].Detail(), because) {
			t.Errorf("%s: expected one error with %q, got %v", address, because, problems)
		}
	}
	if problems := addressOf(found, "some", types.StringValue("198.18.240.11"), path.Root("data")); len(problems) > 0 {
		t.Errorf("expected the fleet to have its own addresses, got %v", problems)
	}
}
