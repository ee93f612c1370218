package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/engine"
)

var fileType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"content": types.StringType,
	"mode":    types.StringType,
}}

// refresh reads what may have changed outside Terraform.
func (r machines) refresh(
	ctx context.Context, state *machineModel, found container.InspectResponse,
) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	state.ID = types.StringValue(found.ID)
	state.ContainerName = types.StringValue(strings.TrimPrefix(found.Name, "/"))
	state.Running = types.BoolValue(found.State.Running && !found.State.Paused)
	state.CPUs = presentCPUs(state.CPUs, found.HostConfig.Resources)
	state.MemoryMB = types.Int64Value(found.HostConfig.Memory / bytesPerMB)
	for _, side := range []*machineNet{state.Data, state.Control} {
		diagnostics.Append(r.refreshNetwork(ctx, side, found.NetworkSettings.Networks)...)
	}
	image, err := r.engine.ImageInspect(ctx, state.Image.ValueString())
	switch {
	case err == nil && image.ID != found.Image:
		state.Image = types.StringValue(found.Image) // the tag moved on to another image
	case err != nil && !cerrdefs.IsNotFound(err):
		diagnostics.Append(unexpected("look up the image "+state.Image.ValueString(), err))
	}
	return diagnostics
}

// refreshNetwork notes which network holds the side's address. A container that was never started
// knows its networks only as they were asked for, by name or id.
func (r machines) refreshNetwork(
	ctx context.Context, side *machineNet, attached map[string]*network.EndpointSettings,
) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	name, id := networkOf(attached, side.Address.ValueString())
	if name != "" && id == "" {
		switch known, err := r.engine.NetworkInspect(ctx, name, network.InspectOptions{}); {
		case err == nil:
			id = known.ID
		case !cerrdefs.IsNotFound(err):
			diagnostics.Append(unexpected("inspect the network "+name, err))
			return diagnostics
		}
	}
	if wanted := side.Network.ValueString(); wanted == "" || (wanted != id && wanted != name) {
		side.Network = types.StringValue(id)
	}
	return diagnostics
}

// presentCPUs keeps the number in the state when Docker's quota is what that number rounds to.
func presentCPUs(state types.Float64, resources container.Resources) types.Float64 {
	if !state.IsNull() && resources.CPUPeriod == cpuPeriodUs &&
		resources.CPUQuota == cpuQuotaUs(state.ValueFloat64()) {
		return state
	}
	if resources.CPUPeriod == 0 {
		return types.Float64Value(0)
	}
	return types.Float64Value(float64(resources.CPUQuota) / float64(resources.CPUPeriod))
}

// adopt fills the model of an imported machine from its labels, settings and files.
func (r machines) adopt(
	ctx context.Context, state *machineModel, found container.InspectResponse,
) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	var spec specLabel
	if err := json.Unmarshal([]byte(found.Config.Labels[engine.LabelSpec]), &spec); err != nil {
		diagnostics.Append(problem{
			summary:  "Container " + found.Name + " is not a machine",
			expected: "a container made by fleet_machine, with the label " + engine.LabelSpec,
			got:      fmt.Sprintf("label %q", found.Config.Labels[engine.LabelSpec]),
			hint:     "import sc-EXPERIMENT-MACHINE, or let Terraform create the machine",
		}.diagnostic())
		return diagnostics
	}
	state.Name = types.StringValue(found.Config.Labels[engine.LabelMachine])
	state.Experiment = types.StringValue(found.Config.Labels[engine.LabelExperiment])
	state.Role = types.StringValue(found.Config.Labels[engine.LabelRole])
	if tier, ok := found.Config.Labels[engine.LabelTier]; ok {
		state.Tier = types.StringValue(tier)
	}
	state.Image = types.StringValue(found.Image)
	state.Standby = types.BoolValue(!found.State.Running) // a frozen one runs
	state.NICMbps, state.DiskMbps = types.Int64Value(spec.NICMbps), types.Int64Value(spec.DiskMbps)
	state.Data = &machineNet{Address: types.StringValue(spec.DataAddress)}
	state.Control = &machineNet{Address: types.StringValue(spec.ControlAddress)}
	state.Command = types.ListNull(types.StringType)
	if spec.Command {
		value, problems := types.ListValueFrom(ctx, types.StringType, []string(found.Config.Cmd))
		diagnostics.Append(problems...)
		state.Command = value
	}
	diagnostics.Append(state.adoptMaps(ctx, spec, found)...)
	diagnostics.Append(r.adoptFiles(ctx, state, spec, found.ID)...)
	return diagnostics
}

func (m *machineModel) adoptMaps(
	ctx context.Context, spec specLabel, found container.InspectResponse,
) diag.Diagnostics {
	var diagnostics, problems diag.Diagnostics
	m.PublishedPorts, m.Environment = types.MapNull(types.Int64Type), types.MapNull(types.StringType)
	ports := map[string]int64{}
	for inside, bindings := range found.HostConfig.PortBindings {
		for _, binding := range bindings {
			if outside, err := strconv.ParseInt(binding.HostPort, 10, 32); err == nil {
				ports[inside.Port()] = outside
			}
		}
	}
	if len(ports) > 0 {
		m.PublishedPorts, problems = types.MapValueFrom(ctx, types.Int64Type, ports)
		diagnostics.Append(problems...)
	}
	present, environment := map[string]string{}, map[string]string{}
	for _, variable := range found.Config.Env {
		name, value, _ := strings.Cut(variable, "=")
		present[name] = value
	}
	for _, name := range spec.Environment {
		environment[name] = present[name]
	}
	if len(environment) > 0 {
		m.Environment, problems = types.MapValueFrom(ctx, types.StringType, environment)
		diagnostics.Append(problems...)
	}
	return diagnostics
}

// refreshFiles reads the machine's files. One that is missing, or has another content or mode, is
// drift, and the machine is replaced.
func (r machines) refreshFiles(ctx context.Context, state *machineModel) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	known, present := map[string]machineFile{}, map[string]machineFile{}
	diagnostics.Append(state.Files.ElementsAs(ctx, &known, false)...)
	for name := range known {
		switch file, err := r.engine.GetFile(ctx, state.ID.ValueString(), name); {
		case cerrdefs.IsNotFound(err):
		case err != nil:
			diagnostics.Append(unexpected("read "+name+" of the machine", err))
		default:
			present[name] = fileOf(file)
		}
	}
	if len(known) == 0 || diagnostics.HasError() {
		return diagnostics
	}
	files, problems := types.MapValueFrom(ctx, fileType, present)
	diagnostics.Append(problems...)
	state.Files = files
	return diagnostics
}

func fileOf(found engine.File) machineFile {
	return machineFile{
		Content: types.StringValue(found.Content), Mode: types.StringValue(fmt.Sprintf("%04o", found.Mode)),
	}
}

func (r machines) adoptFiles(
	ctx context.Context, state *machineModel, spec specLabel, id string,
) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	state.Files = types.MapNull(fileType)
	files := map[string]machineFile{}
	for _, name := range spec.Files {
		file, err := r.engine.GetFile(ctx, id, name)
		if err != nil {
			diagnostics.Append(unexpected("read "+name+" of the machine", err))
			continue
		}
		files[name] = fileOf(file)
	}
	if len(files) > 0 {
		value, problems := types.MapValueFrom(ctx, fileType, files)
		diagnostics.Append(problems...)
		state.Files = value
	}
	return diagnostics
}
