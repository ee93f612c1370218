package provider

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
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
	_ resource.ResourceWithModifyPlan  = (*networkResource)(nil)
	_ resource.ResourceWithImportState = (*networkResource)(nil)
)

// networkResource is a Docker bridge with a fixed IPv4 range, on one host. The host has an address in it.
type networkResource struct{ *connection }

type networkModel struct {
	ID         types.String `tfsdk:"id"`
	Name       types.String `tfsdk:"name"`
	Host       types.String `tfsdk:"host"`
	Experiment types.String `tfsdk:"experiment"`
	CIDR       types.String `tfsdk:"cidr"`
	Gateway    types.String `tfsdk:"gateway"`
	MTU        types.Int64  `tfsdk:"mtu"`
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
		Description: "A bridge network with a fixed IPv4 range, on one host. A fleet_vxlan makes it one with " +
			"those of other hosts.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, PlanModifiers: replace,
				Description: "Name of the network, such as sc-EXPERIMENT-data.",
			},
			"host": hostAttribute(),
			"experiment": schema.StringAttribute{
				Required: true, PlanModifiers: replace, Validators: []validator.String{isLabel},
				Description: "Experiment that the network belongs to (a label).",
			},
			"cidr": schema.StringAttribute{
				Required: true, PlanModifiers: replace, Validators: []validator.String{isCIDR},
				Description: "IPv4 range, such as 198.18.0.0/16.",
			},
			"gateway": schema.StringAttribute{
				Optional: true, PlanModifiers: replace, Validators: []validator.String{isAddress},
				Description: "The host's own address in it, by default the first. Where hosts share a network " +
					"each has to have another.",
			},
			"mtu": schema.Int64Attribute{
				Optional: true, PlanModifiers: replaceInt64, Validators: []validator.Int64{int64validator.Between(576, 65535)},
				Description: "Largest packet in bytes, by default the engine's. VXLAN takes 50 of what the hosts' own " +
					"network carries.",
			},
			"internal": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "No way out and no published ports; this host still reaches the machines. Docker " +
					"publishes a machine's ports on any one network that is not internal. By default false.",
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
	on := r.at(plan.Host, &response.Diagnostics)
	if on == nil {
		return
	}
	created, err := on.NetworkCreate(ctx, plan.Name.ValueString(), plan.options())
	if err != nil {
		response.Diagnostics.Append(explainNetwork(ctx, on, plan, err))
		return
	}
	plan.ID = types.StringValue(created.ID)
	response.Diagnostics.Append(response.State.Set(ctx, plan)...)
}

func (m networkModel) options() network.CreateOptions {
	options := network.CreateOptions{
		Driver:   "bridge",
		Internal: m.Internal.ValueBool(),
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{
			Subnet: m.CIDR.ValueString(), Gateway: m.Gateway.ValueString(),
		}}},
		Labels: map[string]string{engine.LabelExperiment: m.Experiment.ValueString()},
	}
	if !m.MTU.IsNull() {
		options.Options = map[string]string{engine.MTUOption: strconv.FormatInt(m.MTU.ValueInt64(), 10)}
	}
	return options
}

func explainNetwork(
	ctx context.Context,
	on *engine.Engine,
	plan networkModel,
	err error,
) diag.Diagnostic {
	name, cidr := plan.Name.ValueString(), plan.CIDR.ValueString()
	switch {
	case strings.Contains(err.Error(), "overlaps"):
		others := strings.Join(overlapping(ctx, on, cidr, ""), ", ")
		return rangeTaken(cidr, fmt.Sprintf("%s; networks in it: %s", err, others))
	case strings.Contains(err.Error(), "already exists"):
		return problem{
			summary:  "Network " + name + " exists already",
			expected: "no network of this name, as it is not in Terraform's state",
			got:      err.Error(),
			hint: "`terraform import ADDRESS " + name + "` to adopt it, or `docker network rm " +
				name + "`",
		}.diagnostic()
	}
	return unexpected("create the network "+name, err)
}

// overlapping names the networks in a range that are not of the experiment.
func overlapping(ctx context.Context, on *engine.Engine, cidr, own string) []string {
	wanted, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil
	}
	all, err := on.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return []string{"unknown (" + err.Error() + ")"}
	}
	var names []string
	for _, other := range all {
		if own != "" && other.Labels[engine.LabelExperiment] == own {
			continue
		}
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
	if r.forget(ctx, state.Host, &response.State, &response.Diagnostics) {
		return
	}
	on := r.at(state.Host, &response.Diagnostics)
	found, err := on.NetworkInspect(ctx, state.ID.ValueString(), network.InspectOptions{})
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
	state.refreshRange(found)
	response.Diagnostics.Append(response.State.Set(ctx, state)...)
}

// refreshRange takes over the range, and what was asked for beyond it: an engine also tells the
// gateway that it chose by itself.
func (m *networkModel) refreshRange(found network.Inspect) {
	m.CIDR = types.StringNull()
	if len(found.IPAM.Config) > 0 {
		m.CIDR = types.StringValue(found.IPAM.Config[0].Subnet)
		if !m.Gateway.IsNull() {
			m.Gateway = types.StringValue(found.IPAM.Config[0].Gateway)
		}
	}
	m.MTU = types.Int64Null()
	if mtu, err := strconv.ParseInt(found.Options[engine.MTUOption], 10, 64); err == nil {
		m.MTU = types.Int64Value(mtu)
	}
}

// ModifyPlan refuses an unknown host, a gateway outside the range, and a range of another fleet.
func (r *networkResource) ModifyPlan(
	ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse,
) {
	if request.Plan.Raw.IsNull() {
		return
	}
	r.checkHost(ctx, request.Plan, &response.Diagnostics)
	var plan networkModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	r.refuseTaken(ctx, plan, request.State.Raw.IsNull(), &response.Diagnostics)
	if plan.Gateway.IsNull() || plan.Gateway.IsUnknown() || plan.CIDR.IsUnknown() {
		return
	}
	response.Diagnostics.Append(outside(path.Root("gateway"), plan.Gateway, plan.CIDR)...)
}

// refuseTaken is an error if a network of another experiment, or a foreign one, is in the range: an
// apply would otherwise create half a fleet. Networks of the same experiment may be about to move.
func (r *networkResource) refuseTaken(
	ctx context.Context, plan networkModel, isNew bool, diagnostics *diag.Diagnostics,
) {
	if !isNew || diagnostics.HasError() || plan.CIDR.IsUnknown() || plan.Experiment.IsUnknown() || plan.Host.IsUnknown() {
		return
	}
	on := r.at(plan.Host, diagnostics)
	if on == nil {
		return
	}
	cidr := plan.CIDR.ValueString()
	if others := overlapping(ctx, on, cidr, plan.Experiment.ValueString()); len(others) > 0 {
		diagnostics.Append(rangeTaken(cidr, "networks in it: "+strings.Join(others, ", ")))
	}
}

func rangeTaken(cidr, got string) diag.Diagnostic {
	return problem{
		summary:  "Address range " + cidr + " is taken",
		expected: "no other Docker network in this range",
		got:      got,
		hint: "bring that fleet down (`sparecraft down EXPERIMENT`, or `docker network rm NAME`), " +
			"or choose another range",
	}.diagnostic()
}

// outside is an error unless the address is one of the range that a host can have.
func outside(at path.Path, address, cidr types.String) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	one, addressErr := netip.ParseAddr(address.ValueString())
	prefix, prefixErr := netip.ParsePrefix(cidr.ValueString())
	if addressErr != nil || prefixErr != nil || (prefix.Contains(one) && one != prefix.Addr()) {
		return diagnostics // what is no address is another's to say
	}
	diagnostics.AddAttributeError(at, "Address "+one.String()+" is not in its network",
		fmt.Sprintf("expected an address of a host in %s (got %s)", prefix, one))
	return diagnostics
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
	on := r.at(state.Host, &response.Diagnostics)
	if on == nil {
		return
	}
	err := on.NetworkRemove(ctx, state.ID.ValueString())
	if err == nil || cerrdefs.IsNotFound(err) {
		return
	}
	name := state.Name.ValueString()
	found, inspectErr := on.NetworkInspect(ctx, state.ID.ValueString(), network.InspectOptions{})
	if inspectErr != nil || len(found.Containers) == 0 {
		failed := unexpected("remove the network "+name, err)
		if inspectErr == nil && cerrdefs.IsPermissionDenied(err) { // "has active endpoints"
			failed = problem{
				summary:  "Docker counts endpoints on network " + name + " that are not there",
				expected: "a network without containers to be removed",
				got:      err.Error(),
				hint:     "restart the engine, which counts anew (moby issue 42119), then destroy again",
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
		got:      strings.Join(users, ", ") + " on it",
		hint:     "`docker rm -f " + strings.Join(users, " ") + "`, then destroy again",
	}.diagnostic())
}

// ImportState takes the network's name or id, after its host and a slash unless that is the first.
func (r *networkResource) ImportState(
	ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse,
) {
	r.importFrom(ctx, request, response)
}
