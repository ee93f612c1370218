package provider

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/engine"
)

var _ datasource.DataSourceWithConfigure = (*machinesData)(nil)

// machinesData lists the existing machines of an experiment, by any configuration, so that another
// one can watch or publish them.
type machinesData struct{ *connection }

type machinesDataModel struct {
	Experiment types.String `tfsdk:"experiment"`
	Machines   types.Map    `tfsdk:"machines"`
}

type machineSeen struct {
	ID             types.String `tfsdk:"id"`
	Host           types.String `tfsdk:"host"`
	Role           types.String `tfsdk:"role"`
	Tier           types.String `tfsdk:"tier"`
	DataAddress    types.String `tfsdk:"data_address"`
	ControlAddress types.String `tfsdk:"control_address"`
	Running        types.Bool   `tfsdk:"running"`
}

var seenType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"id": types.StringType, "host": types.StringType, "role": types.StringType, "tier": types.StringType,
	"data_address": types.StringType, "control_address": types.StringType, "running": types.BoolType,
}}

func newMachinesData() datasource.DataSource { return &machinesData{} }

func (d *machinesData) Metadata(
	_ context.Context, _ datasource.MetadataRequest, response *datasource.MetadataResponse,
) {
	response.TypeName = "fleet_machines"
}

func (d *machinesData) Schema(
	_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse,
) {
	response.Schema = schema.Schema{
		Description: "The machines of an experiment that are on the provider's hosts now, whoever made them.",
		Attributes: map[string]schema.Attribute{
			"experiment": schema.StringAttribute{
				Required: true, Validators: labels, Description: "Experiment to look for.",
			},
			"machines": schema.MapNestedAttribute{
				Computed: true, Description: "By the machine's name; none where there is no such fleet.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"id":              told("Docker's id of the container."),
					"host":            told("Host that it is on."),
					"role":            told("Its role."),
					"tier":            told("Tier that it is in or serves; null without one."),
					"data_address":    told("IPv4 address that carries the service's traffic."),
					"control_address": told("IPv4 address that carries management."),
					"running": schema.BoolAttribute{
						Computed: true, Description: "True if it runs; a frozen one does not.",
					},
				}},
			},
		},
	}
}

func (d *machinesData) Configure(
	_ context.Context, request datasource.ConfigureRequest, response *datasource.ConfigureResponse,
) {
	d.connection = configured(request.ProviderData, &response.Diagnostics)
}

func (d *machinesData) Read(
	ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse,
) {
	var model machinesDataModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	seen := map[string]machineSeen{}
	for _, on := range d.hosts {
		response.Diagnostics.Append(seenOn(ctx, on, model.Experiment.ValueString(), seen)...)
	}
	if response.Diagnostics.HasError() {
		return
	}
	machines, problems := types.MapValueFrom(ctx, seenType, seen)
	response.Diagnostics.Append(problems...)
	model.Machines = machines
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}

// seenOn adds a host's machines of the experiment; containers without a machine's label are
// ignored.
func seenOn(
	ctx context.Context, on *engine.Engine, experiment string, seen map[string]machineSeen,
) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	found, err := on.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", engine.LabelExperiment+"="+experiment), filters.Arg("label", engine.LabelMachine),
	)})
	if err != nil {
		diagnostics.Append(unexpected("list the containers of host "+on.Host.Name, err))
	}
	for _, one := range found {
		var spec specLabel
		if err := json.Unmarshal([]byte(one.Labels[engine.LabelSpec]), &spec); err != nil {
			diagnostics.AddWarning("Container "+strings.Join(one.Names, ", ")+" is left out",
				"expected the label "+engine.LabelSpec+" of a machine (got "+one.Labels[engine.LabelSpec]+")")
			continue
		}
		tier := types.StringNull()
		if label, ok := one.Labels[engine.LabelTier]; ok {
			tier = types.StringValue(label)
		}
		seen[one.Labels[engine.LabelMachine]] = machineSeen{
			ID: types.StringValue(one.ID), Host: types.StringValue(on.Host.Name),
			Role: types.StringValue(one.Labels[engine.LabelRole]), Tier: tier,
			DataAddress:    types.StringValue(spec.DataAddress),
			ControlAddress: types.StringValue(spec.ControlAddress),
			Running:        types.BoolValue(one.State == container.StateRunning),
		}
	}
	return diagnostics
}
