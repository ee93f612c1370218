package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/pki"
)

// renewBefore is the time before its end at which a plan renews an identity.
const renewBefore = 30 * 24 * time.Hour

var (
	_ resource.ResourceWithConfigure  = (*identityResource)(nil)
	_ resource.ResourceWithModifyPlan = (*identityResource)(nil)
)

// identityResource is the authority of one experiment, the client's certificate and one certificate
// per server. It exists in the state only, so it has no import.
type identityResource struct{ *connection }

type identityModel struct {
	Experiment         types.String `tfsdk:"experiment"`
	Servers            types.Map    `tfsdk:"servers"`
	NotAfter           types.String `tfsdk:"not_after"`
	CACertificate      types.String `tfsdk:"ca_certificate_pem"`
	CAKey              types.String `tfsdk:"ca_private_key_pem"`
	ClientCertificate  types.String `tfsdk:"client_certificate_pem"`
	ClientKey          types.String `tfsdk:"client_private_key_pem"`
	ServerCertificates types.Map    `tfsdk:"server_certificates"`
}

var serverType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"certificate_pem": types.StringType,
	"private_key_pem": types.StringType,
}}

func newIdentity() resource.Resource { return &identityResource{} }

func (r *identityResource) Metadata(
	_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse,
) {
	response.TypeName = "fleet_identity"
}

func (r *identityResource) Schema(
	_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse,
) {
	secret := func(description string) schema.StringAttribute {
		return schema.StringAttribute{
			Computed: true, Sensitive: true, Description: description,
			PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		}
	}
	response.Schema = schema.Schema{
		Description: "An experiment's own certificate authority, its client certificate and one " +
			"certificate per server.",
		Attributes: map[string]schema.Attribute{
			"experiment": schema.StringAttribute{
				Required: true, Description: "Experiment that this identity is for.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{isLabel},
			},
			"servers": schema.MapAttribute{
				Required: true, ElementType: types.ListType{ElemType: types.StringType},
				Description: "Name of each server to the IP addresses and DNS names that it answers on. " +
					"Another server leaves the certificates of the rest as they are.",
			},
			"not_after": schema.StringAttribute{
				Computed: true,
				Description: "End of all certificates but the client's (RFC 3339). From 30 days before it a " +
					"plan replaces the identity.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"ca_certificate_pem": secret("Certificate of the authority."),
			"ca_private_key_pem": secret("Key of the authority; needed to add servers."),
			"client_certificate_pem": secret("Certificate of the client that controls the experiment, for " +
				"eight days. From the fifth on a plan renews it in place."),
			"client_private_key_pem": secret("Key of the client, PKCS #8."),
			"server_certificates": schema.MapNestedAttribute{
				Computed: true, Sensitive: true, Description: "Name of each server to its certificate and key.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"certificate_pem": schema.StringAttribute{
						Computed:    true,
						Description: "Certificate of the server.",
					},
					"private_key_pem": schema.StringAttribute{
						Computed:    true,
						Description: "Key of the server, PKCS #8.",
					},
				}},
			},
		},
	}
}

func (r *identityResource) Configure(
	_ context.Context, request resource.ConfigureRequest, response *resource.ConfigureResponse,
) {
	r.connection = connected(request.ProviderData, &response.Diagnostics)
}

// ModifyPlan keeps every certificate that stays valid known in the plan; were the whole map
// unknown, each machine that holds a certificate would be replaced because another joined.
func (r *identityResource) ModifyPlan(
	ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse,
) {
	if request.Plan.Raw.IsNull() || request.State.Raw.IsNull() || r.connection == nil {
		return
	}
	var plan, state identityModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	due, err := renewalDue(state.NotAfter.ValueString(), r.now())
	if err != nil {
		response.Diagnostics.AddError("The identity in the state cannot be read", err.Error())
		return
	}
	if due || !plan.Experiment.Equal(state.Experiment) {
		for _, secret := range []*types.String{
			&plan.NotAfter, &plan.CACertificate, &plan.CAKey, &plan.ClientCertificate, &plan.ClientKey,
		} {
			*secret = types.StringUnknown()
		}
		plan.ServerCertificates = types.MapUnknown(serverType)
		response.RequiresReplace = append(response.RequiresReplace, path.Root("not_after"))
	} else {
		plan.ServerCertificates = keep(plan, state, &response.Diagnostics)
		renew, err := pki.ClientRenewalDue(state.ClientCertificate.ValueString(), r.now())
		if err != nil {
			response.Diagnostics.AddError("The identity in the state cannot be read", err.Error())
			return
		}
		if renew {
			plan.ClientCertificate, plan.ClientKey = types.StringUnknown(), types.StringUnknown()
		}
	}
	response.Diagnostics.Append(response.Plan.Set(ctx, plan)...)
}

func renewalDue(notAfter string, now time.Time) (bool, error) {
	end, err := time.Parse(time.RFC3339, notAfter)
	return now.After(end.Add(-renewBefore)), err
}

// keep maps each planned server to its present certificate, or to unknown where one has to be made.
func keep(plan, state identityModel, diagnostics *diag.Diagnostics) types.Map {
	if plan.Servers.IsUnknown() {
		return types.MapUnknown(serverType)
	}
	before, present := state.Servers.Elements(), state.ServerCertificates.Elements()
	planned := map[string]attr.Value{}
	for name, addresses := range plan.Servers.Elements() {
		planned[name] = types.ObjectUnknown(serverType.AttrTypes)
		if old, ok := before[name]; ok && old.Equal(addresses) && present[name] != nil {
			planned[name] = present[name]
		}
	}
	value, problems := types.MapValue(serverType, planned)
	diagnostics.Append(problems...)
	return value
}

func (r *identityResource) Create(
	ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse,
) {
	var plan identityModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	if response.Diagnostics.HasError() {
		return
	}
	now := r.now()
	authority, err := pki.NewAuthority(plan.Experiment.ValueString(), now)
	if err != nil {
		response.Diagnostics.AddError("The certificate authority could not be made", err.Error())
		return
	}
	client, err := pki.IssueClient(authority, now)
	if err != nil {
		response.Diagnostics.AddError("The client certificate could not be made", err.Error())
		return
	}
	plan.NotAfter = types.StringValue(now.Add(pki.Lifetime).UTC().Format(time.RFC3339))
	plan.CACertificate = types.StringValue(authority.Certificate)
	plan.CAKey = types.StringValue(authority.Key)
	plan.ClientCertificate = types.StringValue(client.Certificate)
	plan.ClientKey = types.StringValue(client.Key)
	plan.ServerCertificates = types.MapNull(serverType)
	response.Diagnostics.Append(issueServers(ctx, &plan, now)...)
	if !response.Diagnostics.HasError() {
		response.Diagnostics.Append(response.State.Set(ctx, plan)...)
	}
}

func (r *identityResource) Update(
	ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse,
) {
	var plan, state identityModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	plan.ServerCertificates = keep(plan, state, &response.Diagnostics)
	if plan.ClientCertificate.IsUnknown() {
		client, err := pki.IssueClient(plan.authority(), r.now())
		if err != nil {
			response.Diagnostics.AddError("The client certificate could not be made", err.Error())
			return
		}
		plan.ClientCertificate = types.StringValue(client.Certificate)
		plan.ClientKey = types.StringValue(client.Key)
	}
	response.Diagnostics.Append(issueServers(ctx, &plan, r.now())...)
	if !response.Diagnostics.HasError() {
		response.Diagnostics.Append(response.State.Set(ctx, plan)...)
	}
}

func (m identityModel) authority() pki.Pair {
	return pki.Pair{Certificate: m.CACertificate.ValueString(), Key: m.CAKey.ValueString()}
}

// issueServers makes the missing certificates.
func issueServers(ctx context.Context, model *identityModel, now time.Time) diag.Diagnostics {
	servers := map[string][]string{}
	diagnostics := model.Servers.ElementsAs(ctx, &servers, false)
	authority := model.authority()
	present, issued := model.ServerCertificates.Elements(), map[string]attr.Value{}
	for name, addresses := range servers {
		if old := present[name]; old != nil && !old.IsUnknown() {
			issued[name] = old
			continue
		}
		pair, err := pki.IssueServer(authority, name, addresses, now)
		if err != nil {
			diagnostics.AddError("The certificate of "+name+" could not be made", err.Error())
			return diagnostics
		}
		issued[name] = types.ObjectValueMust(serverType.AttrTypes, map[string]attr.Value{
			"certificate_pem": types.StringValue(pair.Certificate),
			"private_key_pem": types.StringValue(pair.Key),
		})
	}
	value, problems := types.MapValue(serverType, issued)
	diagnostics.Append(problems...)
	model.ServerCertificates = value
	return diagnostics
}

// Read does nothing: the state is the only copy.
func (r *identityResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Delete forgets the identity with the state.
func (r *identityResource) Delete(
	context.Context,
	resource.DeleteRequest,
	*resource.DeleteResponse,
) {
}
