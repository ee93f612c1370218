// Package provider is the Terraform provider `sparecraft/fleet`: one file per resource, each with
// its schema, its create, read, update and delete, and its import.
package provider

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	tfprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var _ tfprovider.Provider = (*fleetProvider)(nil)

type fleetProvider struct {
	version string
	now     func() time.Time
	settle  time.Duration
}

// Settle is the time for which a machine's process 1 is watched after a start: a machine whose
// process ends by then is refused.
const Settle = time.Second

// New is the provider's factory; now is the only clock that it reads, and settle is Settle but in tests.
func New(version string, now func() time.Time, settle time.Duration) func() tfprovider.Provider {
	return func() tfprovider.Provider {
		return &fleetProvider{version: version, now: now, settle: settle}
	}
}

// providerModel is the provider's own block.
type providerModel struct {
	Docker types.Bool  `tfsdk:"docker"`
	Hosts  []hostModel `tfsdk:"hosts"`
}

// connection is passed to every resource by Configure; without Docker it has no host.
type connection struct {
	hosts  pool
	now    func() time.Time
	settle time.Duration
	turn   chan struct{} // held by the fleet_run that goes on
}

func (p *fleetProvider) Metadata(
	_ context.Context, _ tfprovider.MetadataRequest, response *tfprovider.MetadataResponse,
) {
	response.TypeName = "fleet"
	response.Version = p.version
}

func (p *fleetProvider) Schema(
	_ context.Context, _ tfprovider.SchemaRequest, response *tfprovider.SchemaResponse,
) {
	response.Schema = schema.Schema{
		Description: "A fleet of machines on one Docker engine or several.",
		Attributes: map[string]schema.Attribute{
			"docker": schema.BoolAttribute{
				Optional: true,
				Description: "True (the default) if an engine is needed. With false none is asked, " +
					"and only `fleet_identity` and `fleet_run` can be made: for fleets on other platforms.",
			},
			"hosts": hostsAttribute(),
		},
	}
}

func (p *fleetProvider) Configure(
	ctx context.Context, request tfprovider.ConfigureRequest, response *tfprovider.ConfigureResponse,
) {
	var model providerModel
	response.Diagnostics.Append(protectStates(".")...)
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	if !model.Docker.IsNull() && !model.Docker.ValueBool() {
		response.ResourceData = &connection{now: p.now, turn: make(chan struct{}, 1)}
		response.DataSourceData = response.ResourceData
		return
	}
	hosts, problems := hostsOf(model.Hosts, os.Getenv)
	response.Diagnostics.Append(problems...)
	if response.Diagnostics.HasError() {
		return
	}
	connected, problems := connectAll(ctx, hosts)
	response.Diagnostics.Append(problems...)
	response.ResourceData = &connection{
		hosts: connected, now: p.now, settle: p.settle, turn: make(chan struct{}, 1),
	}
	response.DataSourceData = response.ResourceData
}

func (p *fleetProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newImage, newNetwork, newVXLAN, newMachine, newIdentity, newRun}
}

func (p *fleetProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newHostData, newMachinesData}
}

// configured is connected for a resource that needs an engine.
func configured(data any, diagnostics *diag.Diagnostics) *connection {
	shared := connected(data, diagnostics)
	if shared != nil && shared.hosts == nil {
		diagnostics.Append(problem{
			summary:  "This provider has no Docker engine",
			expected: "docker = true, or nothing, in the provider's block for all but fleet_identity and fleet_run",
			got:      "docker = false",
			hint:     "remove docker = false, or use this provider for these two only",
		}.diagnostic())
	}
	return shared
}

// connected reads the value of Configure. Terraform also calls it before that, with nothing.
func connected(data any, diagnostics *diag.Diagnostics) *connection {
	if data == nil {
		return nil
	}
	shared, ok := data.(*connection)
	if !ok {
		diagnostics.AddError(
			"Provider defect",
			fmt.Sprintf("expected *connection from Configure (got %T)", data),
		)
	}
	return shared
}

// problem is an error in the user's terms.
type problem struct{ summary, expected, got, hint string }

func (p problem) diagnostic() diag.Diagnostic {
	return diag.NewErrorDiagnostic(p.summary,
		"Expected: "+sentence(p.expected)+"\nGot: "+sentence(p.got)+"\nHint: "+sentence(p.hint))
}

// sentence ends a text with a full stop, unless another sign is there.
func sentence(text string) string {
	if strings.HasSuffix(text, "?") || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// unexpected is a problem of which only the engine knows the cause.
func unexpected(doing string, err error) diag.Diagnostic {
	return problem{
		summary:  "Docker could not " + doing,
		expected: "the engine to " + doing,
		got:      err.Error(),
		hint:     "repeat the command; if it stays, read the engine's log (`journalctl -u docker`)",
	}.diagnostic()
}
