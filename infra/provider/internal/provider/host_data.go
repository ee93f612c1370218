package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var _ datasource.DataSourceWithConfigure = (*hostData)(nil)

// hostData reads the facts of an engine's host, so that a precondition can check whether a fleet
// fits.
type hostData struct{ *connection }

type hostDataModel struct {
	Name          types.String `tfsdk:"name"`
	Address       types.String `tfsdk:"address"`
	CPUs          types.Int64  `tfsdk:"cpus"`
	MemoryMB      types.Int64  `tfsdk:"memory_mb"`
	Architecture  types.String `tfsdk:"architecture"`
	Kernel        types.String `tfsdk:"kernel"`
	EngineVersion types.String `tfsdk:"engine_version"`
	CgroupVersion types.String `tfsdk:"cgroup_version"`
}

// told is a text attribute of a data source.
func told(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, Description: description}
}

func newHostData() datasource.DataSource { return &hostData{} }

func (d *hostData) Metadata(
	_ context.Context, _ datasource.MetadataRequest, response *datasource.MetadataResponse,
) {
	response.TypeName = "fleet_host"
}

func (d *hostData) Schema(
	_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse,
) {
	response.Schema = schema.Schema{
		Description: "A Docker host, as its engine describes it.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Optional: true, Computed: true, Description: "Name of the provider's host, by default the first.",
			},
			"address":        told("Address by which the provider reaches the engine; empty: the usual socket."),
			"cpus":           schema.Int64Attribute{Computed: true, Description: "CPUs of the host."},
			"memory_mb":      schema.Int64Attribute{Computed: true, Description: "Memory of the host in MB (2^20 bytes)."},
			"architecture":   told("Architecture, such as x86_64."),
			"kernel":         told("Version of the kernel."),
			"engine_version": told("Version of the engine."),
			"cgroup_version": told("Version of the control groups that the engine uses, 1 or 2."),
		},
	}
}

func (d *hostData) Configure(
	_ context.Context, request datasource.ConfigureRequest, response *datasource.ConfigureResponse,
) {
	d.connection = configured(request.ProviderData, &response.Diagnostics)
}

func (d *hostData) Read(
	ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse,
) {
	var model hostDataModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	on := d.at(model.Name, &response.Diagnostics)
	if on == nil {
		return
	}
	info, err := on.Info(ctx)
	if err != nil {
		response.Diagnostics.Append(unexpected("describe host "+on.Host.Name, err))
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, hostDataModel{
		Name:          types.StringValue(on.Host.Name),
		Address:       types.StringValue(on.Host.Address),
		CPUs:          types.Int64Value(int64(info.NCPU)),
		MemoryMB:      types.Int64Value(info.MemTotal / bytesPerMB),
		Architecture:  types.StringValue(info.Architecture),
		Kernel:        types.StringValue(info.KernelVersion),
		EngineVersion: types.StringValue(info.ServerVersion),
		CgroupVersion: types.StringValue(info.CgroupVersion),
	})...)
}
