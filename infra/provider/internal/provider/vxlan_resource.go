package provider

import (
	"context"
	"fmt"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/engine"
)

const (
	vniMax    = 1<<24 - 1
	vxlanPort = 4789 // RFC 7348, section 8
)

var (
	_ resource.ResourceWithConfigure  = (*vxlanResource)(nil)
	_ resource.ResourceWithModifyPlan = (*vxlanResource)(nil)
)

// vxlanResource is one host's end of a network over several hosts.
type vxlanResource struct{ *connection }

type vxlanModel struct {
	ID         types.String `tfsdk:"id"`
	Experiment types.String `tfsdk:"experiment"`
	Host       types.String `tfsdk:"host"`
	Network    types.String `tfsdk:"network"`
	Image      types.String `tfsdk:"image"`
	VNI        types.Int64  `tfsdk:"vni"`
	Port       types.Int64  `tfsdk:"port"`
	Address    types.String `tfsdk:"address"`
	Peers      types.Set    `tfsdk:"peers"`
	Running    types.Bool   `tfsdk:"running"`
}

func newVXLAN() resource.Resource { return &vxlanResource{} }

func (r *vxlanResource) Metadata(
	_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse,
) {
	response.TypeName = "fleet_vxlan"
}

func (r *vxlanResource) Schema(
	_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse,
) {
	response.Schema = schema.Schema{
		Description: "One host's end of a network over several hosts: VXLAN to the others, by their addresses. " +
			"A container on the host's own network keeps it. What it carries is not encrypted, and whoever " +
			"reaches its port can send into the network: the hosts' addresses have to be on a network of theirs.",
		Attributes: map[string]schema.Attribute{
			"experiment": schema.StringAttribute{
				Required: true, PlanModifiers: replaceString, Validators: labels,
				Description: "Experiment that the network belongs to (a label).",
			},
			"host": hostAttribute(),
			"network": schema.StringAttribute{
				Required: true, PlanModifiers: replaceString, Description: "Id of the host's fleet_network.",
			},
			"image": schema.StringAttribute{
				Required: true, PlanModifiers: replaceString,
				Description: "Image, on that host, with a shell and iproute2.",
			},
			"vni": schema.Int64Attribute{
				Required: true, PlanModifiers: replaceInt64,
				Validators:  []validator.Int64{int64validator.Between(1, vniMax)},
				Description: "Number of the network (VNI), the same on each of its hosts and no other network's there.",
			},
			"port": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(vxlanPort),
				PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()},
				Validators:    []validator.Int64{int64validator.Between(1, 65535)},
				Description:   "UDP port, by default 4789.",
			},
			"address": schema.StringAttribute{
				Required: true, PlanModifiers: replaceString, Validators: []validator.String{isAddress},
				Description: "IPv4 address of an interface of this host, by which the others reach it.",
			},
			"peers": schema.SetAttribute{
				Required: true, ElementType: types.StringType,
				PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()},
				Validators: []validator.Set{
					setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(isAddress),
				},
				Description: "Addresses of the other hosts.",
			},
			"id": schema.StringAttribute{
				Computed: true, Description: "Docker's id of the container.", PlanModifiers: keepString,
			},
			"running": schema.BoolAttribute{
				Computed: true, Description: "True if the container runs. Planned as true, so a killed one is made anew.",
			},
		},
	}
}

func (r *vxlanResource) Configure(
	_ context.Context, request resource.ConfigureRequest, response *resource.ConfigureResponse,
) {
	r.connection = configured(request.ProviderData, &response.Diagnostics)
}

// ModifyPlan plans that it runs, and refuses an unknown host or one that is its own peer.
func (r *vxlanResource) ModifyPlan(
	ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse,
) {
	if request.Plan.Raw.IsNull() {
		return
	}
	r.checkHost(ctx, request.Plan, &response.Diagnostics)
	var plan vxlanModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	if !plan.Peers.IsUnknown() && slices.Contains(plan.peers(ctx, &response.Diagnostics), plan.Address) {
		response.Diagnostics.AddAttributeError(path.Root("peers"), "A host is its own peer",
			fmt.Sprintf("expected addresses of other hosts (got %s too)", plan.Address.ValueString()))
	}
	response.Diagnostics.Append(response.Plan.SetAttribute(ctx, path.Root("running"), true)...)
	if !request.State.Raw.IsNull() { // a killed one: its log already says that it is ready
		response.RequiresReplace = append(response.RequiresReplace, path.Root("running"))
	}
}

func (m vxlanModel) peers(ctx context.Context, diagnostics *diag.Diagnostics) []types.String {
	var peers []types.String
	diagnostics.Append(m.Peers.ElementsAs(ctx, &peers, false)...)
	return peers
}

func (m vxlanModel) wanted(ctx context.Context, diagnostics *diag.Diagnostics) engine.VXLAN {
	wanted := engine.VXLAN{
		Name:       fmt.Sprintf("sc-%s-vxlan-%d", m.Experiment.ValueString(), m.VNI.ValueInt64()),
		Experiment: m.Experiment.ValueString(),
		Image:      m.Image.ValueString(),
		Network:    m.Network.ValueString(),
		VNI:        m.VNI.ValueInt64(),
		Port:       m.Port.ValueInt64(),
		Local:      m.Address.ValueString(),
	}
	for _, peer := range m.peers(ctx, diagnostics) {
		wanted.Peers = append(wanted.Peers, peer.ValueString())
	}
	return wanted
}

func (r *vxlanResource) Create(
	ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse,
) {
	var plan vxlanModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	on := r.at(plan.Host, &response.Diagnostics)
	wanted := plan.wanted(ctx, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	limited, cancel := context.WithTimeout(ctx, createLimit)
	defer cancel()
	id, err := on.StartVXLAN(limited, wanted)
	if err != nil {
		response.Diagnostics.Append(explainVXLAN(on, wanted, err))
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
		defer cancel()
		if err := on.EndVXLAN(cleaning, id); id != "" && err != nil {
			response.Diagnostics.Append(unexpected("remove container "+id, err))
		}
		return
	}
	plan.ID, plan.Running = types.StringValue(id), types.BoolValue(true)
	response.Diagnostics.Append(response.State.Set(ctx, plan)...)
}

func explainVXLAN(on *engine.Engine, wanted engine.VXLAN, err error) diag.Diagnostic {
	if cerrdefs.IsConflict(err) {
		return problem{
			summary:  "Container " + wanted.Name + " exists already on host " + on.Host.Name,
			expected: "no container of this name, as it is not in Terraform's state",
			got:      err.Error(),
			hint:     "`docker stop " + wanted.Name + " && docker rm " + wanted.Name + "` there, then apply again",
		}.diagnostic()
	}
	return problem{
		summary:  "Host " + on.Host.Name + " cannot join the network over several hosts",
		expected: "an interface (VXLAN) on the bridge of network " + wanted.Network,
		got:      err.Error(),
		hint: "see that the host has the address " + wanted.Local + ", and that its kernel has VXLAN " +
			"(`modprobe vxlan`); then apply again",
	}.diagnostic()
}

func (r *vxlanResource) Read(
	ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse,
) {
	var state vxlanModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() ||
		r.forget(ctx, state.Host, &response.State, &response.Diagnostics) {
		return
	}
	found, err := r.at(state.Host, &response.Diagnostics).ContainerInspect(ctx, state.ID.ValueString())
	if cerrdefs.IsNotFound(err) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		response.Diagnostics.Append(unexpected("inspect the container "+state.ID.ValueString(), err))
		return
	}
	state.Running = types.BoolValue(found.State.Running && !found.State.Paused)
	response.Diagnostics.Append(response.State.Set(ctx, state)...)
}

// Update is never called: every attribute replaces it.
func (r *vxlanResource) Update(context.Context, resource.UpdateRequest, *resource.UpdateResponse) {}

func (r *vxlanResource) Delete(
	ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse,
) {
	var state vxlanModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	on := r.at(state.Host, &response.Diagnostics)
	if on == nil {
		return
	}
	if err := on.EndVXLAN(ctx, state.ID.ValueString()); err != nil {
		response.Diagnostics.Append(unexpected("remove the container "+state.ID.ValueString(), err))
	}
}
