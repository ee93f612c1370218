package provider

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/engine"
)

var (
	_ resource.ResourceWithConfigure   = (*networkResource)(nil)
	_ resource.ResourceWithImportState = (*networkResource)(nil)
)

// networkResource is a Docker bridge with a fixed IPv4 range. This host has the first address.
type networkResource struct{ *connection }

type networkModel struct {
	ID         types.String `tfsdk:"id"`
	Name       types.String `tfsdk:"name"`
	Experiment types.String `tfsdk:"experiment"`
	CIDR       types.String `tfsdk:"cidr"`
	Internal   types.Bool   `tfsdk:"internal"`
}

func newNetwork() resource.Resource { return &networkResource{} }

func (r *networkResource) Metadata(
	_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse,
) {
	response.TypeName = "fleet_network"
}

func (r *networkResource) Schema(
	_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse,
) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	response.Schema = schema.Schema{
		Description: "A bridge network with a fixed IPv4 range. The host itself has the first address.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, PlanModifiers: replace,
				Description: "Name of the network, such as sc-EXPERIMENT-data.",
			},
			"experiment": schema.StringAttribute{
				Required: true, PlanModifiers: replace, Validators: []validator.String{isLabel},
				Description: "Experiment that the network belongs to (a label).",
			},
			"cidr": schema.StringAttribute{
				Required: true, PlanModifiers: replace, Validators: []validator.String{isCIDR},
				Description: "IPv4 range, such as 198.18.0.0/16.",
			},
			"internal": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "No way out and no published ports; this host still reaches the machines. Docker " +
					"publishes a machine's ports on any one network that is not internal.",
				PlanModifiers: []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
			},
			"id": schema.StringAttribute{
				Computed: true, Description: "Docker's id of the network.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
		},
	}
}

func (r *networkResource) Configure(
	_ context.Context, request resource.ConfigureRequest, response *resource.ConfigureResponse,
) {
	r.connection = configured(request.ProviderData, &response.Diagnostics)
}

func (r *networkResource) Create(
	ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse,
) {
	var plan networkModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	if response.Diagnostics.HasError() {
		return
	}
	created, err := r.engine.NetworkCreate(ctx, plan.Name.ValueString(), network.CreateOptions{
		Driver:   "bridge",
		Internal: plan.Internal.ValueBool(),
		IPAM:     &network.IPAM{Config: []network.IPAMConfig{{Subnet: plan.CIDR.ValueString()}}},
		Labels:   map[string]string{engine.LabelExperiment: plan.Experiment.ValueString()},
	})
	if err != nil {
		response.Diagnostics.Append(r.explainCreate(ctx, plan, err))
		return
	}
	plan.ID = types.StringValue(created.ID)
	response.Diagnostics.Append(response.State.Set(ctx, plan)...)
}

func (r *networkResource) explainCreate(
	ctx context.Context,
	plan networkModel,
	err error,
) diag.Diagnostic {
	name, cidr := plan.Name.ValueString(), plan.CIDR.ValueString()
	switch {
	case strings.Contains(err.Error(), "overlaps"):
		return problem{
			summary:  "Address range " + cidr + " is taken",
			expected: "no other Docker network in this range",
			came: fmt.Sprintf(
				"%s; networks in it: %s",
				err,
				strings.Join(r.overlapping(ctx, cidr), ", "),
			),
			todo: "bring that fleet down (`sparecraft down EXPERIMENT`, or `docker network rm NAME`), " +
				"or choose another range",
		}.diagnostic()
	case strings.Contains(err.Error(), "already exists"):
		return problem{
			summary:  "Network " + name + " exists already",
			expected: "no network of this name, as it is not in Terraform's state",
			came:     err.Error(),
			todo: "`terraform import ADDRESS " + name + "` to adopt it, or `docker network rm " +
				name + "`",
		}.diagnostic()
	}
	return unexpected("create the network "+name, err)
}

func (r *networkResource) overlapping(ctx context.Context, cidr string) []string {
	wanted, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil
	}
	all, err := r.engine.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return []string{"unknown (" + err.Error() + ")"}
	}
	var names []string
	for _, other := range all {
		for _, config := range other.IPAM.Config {
			if prefix, err := netip.ParsePrefix(config.Subnet); err == nil && prefix.Overlaps(wanted) {
				names = append(names, other.Name+" ("+config.Subnet+")")
			}
		}
	}
	return names
}

func (r *networkResource) Read(
	ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse,
) {
	var state networkModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := r.engine.NetworkInspect(ctx, state.ID.ValueString(), network.InspectOptions{})
	if cerrdefs.IsNotFound(err) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		response.Diagnostics.Append(unexpected("inspect the network "+state.ID.ValueString(), err))
		return
	}
	state.ID = types.StringValue(found.ID)
	state.Name = types.StringValue(found.Name)
	state.Experiment = types.StringValue(found.Labels[engine.LabelExperiment])
	state.Internal = types.BoolValue(found.Internal)
	state.CIDR = types.StringNull()
	if len(found.IPAM.Config) > 0 {
		state.CIDR = types.StringValue(found.IPAM.Config[0].Subnet)
	}
	response.Diagnostics.Append(response.State.Set(ctx, state)...)
}

// Update is never called: every attribute replaces the network.
func (r *networkResource) Update(
	context.Context,
	resource.UpdateRequest,
	*resource.UpdateResponse,
) {
}

func (r *networkResource) Delete(
	ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse,
) {
	var state networkModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	err := r.engine.NetworkRemove(ctx, state.ID.ValueString())
	if err == nil || cerrdefs.IsNotFound(err) {
		return
	}
	name := state.Name.ValueString()
	found, inspectErr := r.engine.NetworkInspect(ctx, state.ID.ValueString(), network.InspectOptions{})
	if inspectErr != nil || len(found.Containers) == 0 {
		failed := unexpected("remove the network "+name, err)
		if inspectErr == nil && cerrdefs.IsPermissionDenied(err) { // "has active endpoints"
			failed = problem{
				summary:  "Docker counts endpoints on network " + name + " that are not there",
				expected: "a network without containers to be removed",
				came:     err.Error(),
				todo:     "restart the engine, which counts anew (moby issue 42119), then destroy again",
			}.diagnostic()
		}
		response.Diagnostics.Append(failed)
		return
	}
	var users []string
	for _, id := range slices.Sorted(maps.Keys(found.Containers)) {
		users = append(users, found.Containers[id].Name)
	}
	response.Diagnostics.Append(problem{
		summary:  "Network " + name + " is in use",
		expected: "no container on it that Terraform does not know",
		came:     strings.Join(users, ", ") + " on it",
		todo:     "`docker rm -f " + strings.Join(users, " ") + "`, then destroy again",
	}.diagnostic())
}

// ImportState takes the network's name or id.
func (r *networkResource) ImportState(
	ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse,
) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), request, response)
}
