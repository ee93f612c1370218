package provider

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// checkAddresses refuses, in the plan, an address outside its network, its host's own, or that of a
// container of another fleet: the fleet's own machines may swap addresses. It ignores a network
// that does not exist yet.
func (r *machineResource) checkAddresses(
	ctx context.Context, plan tfsdk.Plan, diagnostics *diag.Diagnostics,
) {
	var host, experiment types.String
	diagnostics.Append(plan.GetAttribute(ctx, path.Root("host"), &host)...)
	diagnostics.Append(plan.GetAttribute(ctx, path.Root("experiment"), &experiment)...)
	if host.IsUnknown() || experiment.IsUnknown() {
		return
	}
	own := machineModel{Experiment: experiment}.containerName() // the begin of each of the fleet's
	for _, side := range []string{"data", "control"} {
		at := path.Root(side).AtName("address")
		var id, address types.String
		diagnostics.Append(plan.GetAttribute(ctx, path.Root(side).AtName("network"), &id)...)
		diagnostics.Append(plan.GetAttribute(ctx, at, &address)...)
		if id.ValueString() == "" || address.ValueString() == "" {
			continue
		}
		on := r.at(host, diagnostics)
		found, err := on.NetworkInspect(ctx, id.ValueString(), network.InspectOptions{})
		if cerrdefs.IsNotFound(err) {
			continue // removed since the refresh; the apply says so
		}
		if err != nil {
			diagnostics.Append(unexpected("inspect the network "+id.ValueString(), err))
			continue
		}
		diagnostics.Append(addressOf(found, own, address, at)...)
	}
}

func addressOf(found network.Inspect, own string, address types.String, at path.Path) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	for _, config := range found.IPAM.Config {
		diagnostics.Append(outside(at, address, types.StringValue(config.Subnet))...)
		if config.Gateway == address.ValueString() {
			diagnostics.AddAttributeError(at, "Address "+config.Gateway+" is taken",
				"expected an address that is free (got that of the host itself in network "+found.Name+")")
		}
	}
	for _, other := range found.Containers {
		taken, err := netip.ParsePrefix(other.IPv4Address)
		if err == nil && taken.Addr().String() == address.ValueString() && !strings.HasPrefix(other.Name, own) {
			diagnostics.AddAttributeError(at, "Address "+address.ValueString()+" is taken",
				fmt.Sprintf("expected an address that is free in network %s (got that of container %s)", found.Name, other.Name))
		}
	}
	return diagnostics
}
