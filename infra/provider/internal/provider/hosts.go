package provider

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/engine"
)

// onlyHost is the name of the host if the provider's block has none.
const onlyHost = "local"

// hostModel is one host of the provider's block.
type hostModel struct {
	Name         types.String `tfsdk:"name"`
	Address      types.String `tfsdk:"address"`
	Certificates types.String `tfsdk:"certificates"`
}

func (h hostModel) host() engine.Host {
	return engine.Host{
		Name: h.Name.ValueString(), Address: h.Address.ValueString(), Certificates: h.Certificates.ValueString(),
	}
}

func hostsAttribute() providerschema.ListNestedAttribute {
	return providerschema.ListNestedAttribute{
		Optional: true,
		Description: "Docker hosts that machines are put on; images are built on the first. By default one, " +
			"called " + onlyHost + ", that DOCKER_HOST (and DOCKER_CERT_PATH) names, or the local socket.",
		NestedObject: providerschema.NestedAttributeObject{
			Attributes: map[string]providerschema.Attribute{
				"name": providerschema.StringAttribute{
					Required: true, Validators: []validator.String{isLabel},
					Description: "Name of the host, by which resources choose it.",
				},
				"address": providerschema.StringAttribute{
					Required: true,
					Description: "unix://PATH, tcp://HOST:PORT (with certificates, unless it is a loopback " +
						"address) or ssh://[USER@]HOST[:PORT][/SOCKET] (by ssh's own settings and keys, without " +
						"questions; Docker's client has to be there).",
				},
				"certificates": providerschema.StringAttribute{
					Optional:    true,
					Description: "Folder of the client's ca.pem, cert.pem and key.pem, for tcp.",
				},
			},
		},
	}
}

func hostAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, PlanModifiers: replaceString,
		Description: "Name of the provider's host that it is on, by default the first.",
	}
}

// pool has the connected hosts in order.
type pool []*engine.Engine

func (p pool) names() []string {
	var names []string
	for _, one := range p {
		names = append(names, one.Host.Name)
	}
	return names
}

// find returns the engine of a host; an empty name is the first host.
func (p pool) find(name string) *engine.Engine {
	for _, one := range p {
		if name == "" || one.Host.Name == name {
			return one
		}
	}
	return nil
}

// connectAll connects to all hosts in parallel. Each one that does not answer is a diagnostic.
func connectAll(ctx context.Context, hosts []engine.Host) (pool, diag.Diagnostics) {
	var diagnostics diag.Diagnostics
	found, failed := make(pool, len(hosts)), make([]error, len(hosts))
	var together sync.WaitGroup
	for i, host := range hosts {
		together.Go(func() { found[i], failed[i] = engine.Connect(ctx, host) })
	}
	together.Wait()
	for i, err := range failed {
		if err != nil {
			diagnostics.Append(noAnswer(hosts[i].Name, err))
		}
	}
	return found, diagnostics
}

func noAnswer(host string, err error) diag.Diagnostic {
	return problem{
		summary:  "Docker does not answer on host " + host,
		expected: "a running Docker engine that this user may use",
		got:      err.Error(),
		hint: "start it (`systemctl start docker`, or `dockerd`), join the group `docker`, or " +
			"point DOCKER_HOST or the host's address at another engine; then repeat the command",
	}.diagnostic()
}

// hostsOf reads the provider's hosts, whose names are unique.
func hostsOf(models []hostModel, environment func(string) string) ([]engine.Host, diag.Diagnostics) {
	var diagnostics diag.Diagnostics
	if len(models) == 0 {
		return []engine.Host{engine.HostOfEnvironment(onlyHost, environment)}, diagnostics
	}
	hosts, seen := []engine.Host{}, map[string]bool{}
	for i, model := range models {
		host, at := model.host(), path.Root("hosts").AtListIndex(i)
		if err := host.Check(); err != nil {
			diagnostics.AddAttributeError(at.AtName("address"), "Host "+host.Name+" cannot be reached so", err.Error())
		}
		if seen[host.Name] {
			diagnostics.AddAttributeError(at.AtName("name"), "Host "+host.Name+" is there twice",
				fmt.Sprintf("expected each host of another name (got %q again)", host.Name))
		}
		seen[host.Name] = true
		hosts = append(hosts, host)
	}
	return hosts, diagnostics
}

// at returns the engine of a resource's host, or nil with a diagnostic.
func (c *connection) at(host types.String, diagnostics *diag.Diagnostics) *engine.Engine {
	found := c.hosts.find(host.ValueString())
	if found == nil {
		diagnostics.Append(c.noSuchHost(path.Root("host"), host.ValueString()))
	}
	return found
}

func (c *connection) noSuchHost(where path.Path, name string) diag.Diagnostic {
	return diag.WithPath(where, problem{
		summary:  "There is no host " + name,
		expected: "a host of the provider's block: " + strings.Join(c.hosts.names(), ", "),
		got:      name,
		hint:     "add it to the provider's hosts, or choose another; what was on a host that is gone is gone",
	}.diagnostic())
}

// forget drops a resource from the state if its host is no longer among the provider's: a dead host
// is removed there, and its resources are recreated on others.
func (c *connection) forget(
	ctx context.Context, host types.String, state *tfsdk.State, diagnostics *diag.Diagnostics,
) bool {
	if c.hosts.find(host.ValueString()) != nil {
		return false
	}
	diagnostics.AddWarning("What was on host "+host.ValueString()+" is forgotten", fmt.Sprintf(
		"Expected: a host of the provider's block: %s.\nGot: %s.\nHint: nothing, if that host is gone for good; "+
			"else put it back into the block before you go on, or containers and networks stay on it.",
		strings.Join(c.hosts.names(), ", "), host.ValueString()))
	state.RemoveResource(ctx)
	return true
}

// checkHost refuses an unknown host in the plan.
func (c *connection) checkHost(ctx context.Context, plan tfsdk.Plan, diagnostics *diag.Diagnostics) {
	var host types.String
	diagnostics.Append(plan.GetAttribute(ctx, path.Root("host"), &host)...)
	if c != nil && !host.IsUnknown() {
		c.at(host, diagnostics)
	}
}

// importFrom splits ID or HOST/ID.
func (c *connection) importFrom(
	ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse,
) {
	id := request.ID
	if host, rest, qualified := strings.Cut(id, "/"); qualified {
		response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root("host"), host)...)
		id = rest
	}
	response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root("id"), id)...)
}
