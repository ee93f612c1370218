package provider

import (
	"context"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/engine"
)

// Time limits of the engine for one machine; `timeouts` may change them.
const (
	createLimit = 3 * time.Minute
	updateLimit = time.Minute
	deleteLimit = time.Minute
	cleanLimit  = 20 * time.Second
)

var (
	_ resource.ResourceWithConfigure   = (*machineResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*machineResource)(nil)
	_ resource.ResourceWithImportState = (*machineResource)(nil)
)

// machineResource is one machine: a container that has a machine's limits, two interfaces and a
// desired state. Whether it should run is planned, so one that was killed shows as drift.
type machineResource struct{ *connection }

func newMachine() resource.Resource { return &machineResource{} }

func (r *machineResource) Metadata(
	_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse,
) {
	response.TypeName = "fleet_machine"
}

func (r *machineResource) Configure(
	_ context.Context, request resource.ConfigureRequest, response *resource.ConfigureResponse,
) {
	r.connection = configured(request.ProviderData, &response.Diagnostics)
}

// ModifyPlan states whether the machine should run (unless it is a standby, it should) and its files' sums.
func (r *machineResource) ModifyPlan(
	ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse,
) {
	if request.Plan.Raw.IsNull() {
		return
	}
	r.checkHost(ctx, request.Plan, &response.Diagnostics)
	planFileSums(ctx, request, response)
	if !response.Diagnostics.HasError() && r.connection != nil {
		r.checkAddresses(ctx, request.Plan, &response.Diagnostics)
	}
	var standby types.Bool
	response.Diagnostics.Append(request.Plan.GetAttribute(ctx, path.Root("standby"), &standby)...)
	running := types.BoolUnknown()
	if !standby.IsUnknown() {
		running = types.BoolValue(!standby.ValueBool())
	}
	response.Diagnostics.Append(response.Plan.SetAttribute(ctx, path.Root("running"), running)...)
}

func (r *machineResource) Create(
	ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse,
) {
	var plan machineModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	if response.Diagnostics.HasError() {
		return
	}
	on := r.on(plan.Host, &response.Diagnostics)
	if on.engine == nil {
		return
	}
	limited, cancel := within(ctx, plan.Timeouts.Create, createLimit, &response.Diagnostics)
	defer cancel()
	id, problems := on.make(limited, plan)
	response.Diagnostics.Append(problems...)
	if response.Diagnostics.HasError() {
		on.discard(ctx, id, &response.Diagnostics)
		return
	}
	plan.ID = types.StringValue(id)
	plan.ContainerName = types.StringValue(plan.containerName())
	plan.Running = types.BoolValue(!plan.Standby.ValueBool())
	response.Diagnostics.Append(plan.sumFiles()...)
	response.Diagnostics.Append(response.State.Set(ctx, plan)...)
}

// make creates the container, gives it its second interface and its files, and starts it. The id
// is returned also with an error, for whatever has to be cleaned up.
func (r machines) make(ctx context.Context, plan machineModel) (string, diag.Diagnostics) {
	wanted, diagnostics := plan.desired(ctx)
	if diagnostics.HasError() {
		return "", diagnostics
	}
	diagnostics.Append(r.equip(ctx, wanted)...)
	created, err := r.engine.ContainerCreate(
		ctx,
		wanted.config,
		wanted.host,
		wanted.network,
		nil,
		wanted.name,
	)
	if err != nil {
		diagnostics.Append(r.explain(ctx, plan, "create", err))
		return "", diagnostics
	}
	for _, warning := range created.Warnings {
		diagnostics.AddWarning(
			"Docker cannot give machine "+plan.Name.ValueString()+" all that it asks for",
			warning,
		)
	}
	control := plan.Control.endpoint()
	err = r.engine.NetworkConnect(ctx, plan.Control.Network.ValueString(), created.ID, control)
	if err != nil {
		diagnostics.Append(r.explain(ctx, plan, "connect", err))
		return created.ID, diagnostics
	}
	if err := r.engine.PutFiles(ctx, created.ID, wanted.files); err != nil {
		diagnostics.Append(r.explain(ctx, plan, "put the files into", err))
		return created.ID, diagnostics
	}
	if !plan.Standby.ValueBool() {
		diagnostics.Append(r.start(ctx, plan, created.ID)...)
	}
	return created.ID, diagnostics
}

// equip gives the machine what its host has: a disk to throttle, and FUSE. A host without a disk
// gets a warning, not a refusal: the machine is usable, only its disk is as fast as the host's.
func (r machines) equip(ctx context.Context, wanted *desired) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	found, err := r.engine.Hardware(ctx, wanted.config.Image, wanted.config.Labels[engine.LabelExperiment])
	if cerrdefs.IsNotFound(err) { // the image, which the machine then misses
		return diagnostics
	}
	if err == nil {
		err = found.NoDisk
	}
	if err != nil {
		diagnostics.AddWarning(
			"disk_mbps of machine "+wanted.config.Hostname+" is not enforced",
			fmt.Sprintf(
				"Expected: Docker's root directory on a block device of host %s, and an image with a shell.\n"+
					"Got: %s.\nHint: nothing, if disk speed does not matter; else move Docker's root there.",
				r.engine.Host.Name, err),
		)
	} else {
		wanted.throttle(found.Disk)
	}
	if found.Fuse {
		wanted.host.Devices = engine.FuseDevice()
	}
	return diagnostics
}

// discard removes what a failed create left, also when the create was cancelled.
func (r machines) discard(ctx context.Context, id string, diagnostics *diag.Diagnostics) {
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	if err := r.remove(ctx, id); err != nil {
		diagnostics.AddError("A half-made machine is left", fmt.Sprintf(
			"Expected: to remove container %s.\nGot: %s.\nHint: `docker rm -f %s`.", id, err, id))
	}
}

func (r *machineResource) Read(
	ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse,
) {
	var state machineModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	if r.forget(ctx, state.Host, &response.State, &response.Diagnostics) {
		return
	}
	on := r.on(state.Host, &response.Diagnostics)
	found, err := on.engine.ContainerInspect(ctx, state.ID.ValueString())
	if cerrdefs.IsNotFound(err) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		response.Diagnostics.Append(unexpected("inspect the machine "+state.ID.ValueString(), err))
		return
	}
	if state.Name.IsNull() { // after an import there is an id and nothing else
		response.Diagnostics.Append(on.adopt(ctx, &state, found)...)
	} else {
		response.Diagnostics.Append(on.refreshFiles(ctx, &state)...)
	}
	response.Diagnostics.Append(on.refresh(ctx, &state, found)...)
	response.Diagnostics.Append(state.sumFiles()...)
	if !response.Diagnostics.HasError() {
		response.Diagnostics.Append(response.State.Set(ctx, state)...)
	}
}

// Update changes the limits and starts or stops; everything else replaces the machine.
func (r *machineResource) Update(
	ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse,
) {
	var plan, state machineModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	on := r.on(plan.Host, &response.Diagnostics)
	if on.engine == nil {
		return
	}
	limited, cancel := within(ctx, plan.Timeouts.Update, updateLimit, &response.Diagnostics)
	defer cancel()
	response.Diagnostics.Append(on.change(limited, plan, state)...)
	if !response.Diagnostics.HasError() {
		plan.ID, plan.ContainerName = state.ID, state.ContainerName
		plan.Running = types.BoolValue(!plan.Standby.ValueBool())
		response.Diagnostics.Append(plan.sumFiles()...)
		response.Diagnostics.Append(response.State.Set(ctx, plan)...)
	}
}

func (r machines) change(ctx context.Context, plan, state machineModel) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	id := state.ID.ValueString()
	if !plan.CPUs.Equal(state.CPUs) || !plan.MemoryMB.Equal(state.MemoryMB) {
		if _, err := r.engine.ContainerUpdate(ctx, id, plan.limits()); err != nil {
			diagnostics.Append(r.explain(ctx, plan, "change the limits of", err))
			return diagnostics
		}
	}
	switch shouldRun, runs := !plan.Standby.ValueBool(), state.Running.ValueBool(); {
	case shouldRun && !runs:
		diagnostics.Append(r.start(ctx, plan, id)...)
	case !shouldRun && runs:
		if err := r.stop(ctx, id); err != nil {
			diagnostics.Append(r.explain(ctx, plan, "stop", err))
		}
	}
	return diagnostics
}

func (r *machineResource) Delete(
	ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse,
) {
	var state machineModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	on := r.on(state.Host, &response.Diagnostics)
	if on.engine == nil {
		return
	}
	limited, cancel := within(ctx, state.Timeouts.Delete, deleteLimit, &response.Diagnostics)
	defer cancel()
	response.Diagnostics.Append(on.end(limited, state)...)
}

// end disconnects a machine from its networks, stops it and removes it.
func (r machines) end(ctx context.Context, state machineModel) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	if err := r.engine.Leave(ctx, state.ID.ValueString()); err != nil {
		diagnostics.Append(r.explain(ctx, state, "disconnect", err))
		return diagnostics
	}
	if state.Running.ValueBool() {
		if err := r.stop(ctx, state.ID.ValueString()); err != nil && !cerrdefs.IsNotFound(err) {
			diagnostics.Append(r.explain(ctx, state, "stop", err))
			return diagnostics
		}
	}
	if err := r.remove(ctx, state.ID.ValueString()); err != nil {
		diagnostics.Append(r.explain(ctx, state, "remove", err))
	}
	return diagnostics
}

// ImportState takes the container's name (sc-EXPERIMENT-MACHINE) or id, after its host and a slash
// unless that is the first: HOST/sc-EXPERIMENT-MACHINE.
func (r *machineResource) ImportState(
	ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse,
) {
	r.importFrom(ctx, request, response)
}

// within bounds the time of an apply for one resource: by its `timeouts`, or by the default.
func within(
	ctx context.Context, stated func(context.Context, time.Duration) (time.Duration, diag.Diagnostics),
	usual time.Duration, diagnostics *diag.Diagnostics,
) (context.Context, context.CancelFunc) {
	limit, problems := stated(ctx, usual)
	diagnostics.Append(problems...)
	return context.WithTimeout(ctx, limit)
}

func (r *machineResource) on(host types.String, diagnostics *diag.Diagnostics) machines {
	return machines{r.at(host, diagnostics), r.settle}
}
