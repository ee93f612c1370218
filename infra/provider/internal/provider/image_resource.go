package provider

import (
	"context"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/buildcontext"
	"sparecraft/infra/provider/internal/engine"
)

// buildLimit bounds the build of an image and its copies; some download and compile for long.
const buildLimit = time.Hour

var (
	_ resource.ResourceWithConfigure   = (*imageResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*imageResource)(nil)
	_ resource.ResourceWithImportState = (*imageResource)(nil)
)

// imageResource builds an image from a context on one host, and copies it to others. The context's hash is known at plan time and kept
// as a label on the image, so that a plan shows a rebuild exactly when the content changed.
type imageResource struct{ *connection }

type imageModel struct {
	Hosts       types.List   `tfsdk:"hosts"`
	IDs         types.Map    `tfsdk:"ids"`
	ID          types.String `tfsdk:"id"`
	Tag         types.String `tfsdk:"tag"`
	Context     types.String `tfsdk:"context"`
	Dockerfile  types.String `tfsdk:"dockerfile"`
	Ignore      types.List   `tfsdk:"ignore"`
	Files       types.Map    `tfsdk:"files"`
	BuildArgs   types.Map    `tfsdk:"build_args"`
	BaseImage   types.String `tfsdk:"base_image"`
	StockImage  types.String `tfsdk:"stock_image"`
	Target      types.String `tfsdk:"target"`
	Retain      types.Bool   `tfsdk:"retain"`
	ContentHash types.String `tfsdk:"content_hash"`

	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

func newImage() resource.Resource { return &imageResource{} }

func (r *imageResource) Metadata(
	_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse,
) {
	response.TypeName = "fleet_image"
}

func (r *imageResource) Schema(
	ctx context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse,
) {
	response.Schema = schema.Schema{
		Description: "An image built from a directory, rebuilt when its content changes.",
		Attributes: map[string]schema.Attribute{
			"tag": schema.StringAttribute{
				Required: true, Description: "Name of the image, such as sparecraft/mariadb:local.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"context": schema.StringAttribute{
				Required: true, Description: "Directory to build from; its .dockerignore is honoured.",
			},
			"dockerfile": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("Dockerfile"),
				Description: "Path of the Dockerfile in the context, by default Dockerfile.",
				Validators:  []validator.String{isContextPath},
			},
			"ignore": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				Description: "Patterns as in a .dockerignore, before those of the directory's own.",
			},
			"files": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				Description: "Files from elsewhere: path in the context to path on this host.",
				Validators:  []validator.Map{keysAre{isContextPath}},
			},
			"build_args": schema.MapAttribute{
				Optional: true, ElementType: types.StringType, Description: "Arguments of the build (ARG).",
			},
			"base_image": schema.StringAttribute{
				Optional: true,
				Description: "Image that the Dockerfile starts FROM. When given it has to exist, and a " +
					"new one rebuilds this image.",
			},
			"stock_image": schema.StringAttribute{
				Optional: true,
				Description: "Image that the Dockerfile builds upon: its name or id in the argument IMAGE, what it runs in " +
					"STOCK_ENTRYPOINT, STOCK_COMMAND, STOCK_HEALTHCHECK (a shell's words), STOCK_USER and STOCK_WORKDIR, " +
					"unless build_args says so. It is pulled where it is not there, and another one rebuilds this image.",
			},
			"target": schema.StringAttribute{
				Optional: true, Description: "Stage of the Dockerfile to build, by default the last.",
			},
			"retain": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "Keep the image on destroy, so that the next apply has nothing to build; by default not.",
			},
			"content_hash": schema.StringAttribute{
				Computed: true,
				Description: "SHA-256 of all that decides the image; also its label " +
					engine.LabelHash + ".",
			},
			"hosts": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				Description: "Hosts to have it, by default the provider's first: built on the first of these, " +
					"and copied from there to the others through their engines.",
				Validators: []validator.List{listvalidator.SizeAtLeast(1), listvalidator.UniqueValues()},
			},
			"timeouts": timeoutsAttribute(ctx, buildLimit, buildLimit, deleteLimit),
			"id": schema.StringAttribute{
				Computed:    true,
				Description: "Docker's id of the image on the host that built it.",
			},
			"ids": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				Description: "Docker's id of the image on each host. Machines refer to it, so that a rebuild " +
					"replaces them.",
			},
		},
	}
}

func (r *imageResource) Configure(
	_ context.Context, request resource.ConfigureRequest, response *resource.ConfigureResponse,
) {
	r.connection = configured(request.ProviderData, &response.Diagnostics)
}

// ModifyPlan hashes the context, so that the plan knows what an apply would have to build.
func (r *imageResource) ModifyPlan(
	ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse,
) {
	if request.Plan.Raw.IsNull() || r.connection == nil {
		return
	}
	var plan imageModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	if response.Diagnostics.HasError() || !request.Config.Raw.IsFullyKnown() {
		return
	}
	var state *imageModel
	if !request.State.Raw.IsNull() {
		response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	}
	at := r.hostsOf(ctx, plan, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	files, _, problems := load(ctx, at[0], plan)
	switch {
	case problems.HasError() && state == nil:
		response.Diagnostics.Append(problems...)
		return
	case problems.HasError(): // a built image needs no context to be used or destroyed
		for _, problem := range problems {
			response.Diagnostics.AddWarning(
				problem.Summary()+"; the image built before stays",
				problem.Detail(),
			)
		}
		plan.ContentHash = state.ContentHash
	case files == nil: // a stock image that the apply will pull
		plan.ContentHash = types.StringUnknown()
	default:
		plan.ContentHash = types.StringValue(files.Hash)
	}
	plan.ID, plan.IDs = types.StringUnknown(), types.MapUnknown(types.StringType)
	if state != nil && state.ContentHash.Equal(plan.ContentHash) && state.Tag.Equal(plan.Tag) && state.isOn(at) {
		plan.ID, plan.IDs = state.ID, state.IDs
	}
	response.Diagnostics.Append(response.Plan.Set(ctx, plan)...)
}

// load lists and hashes the model's context, and returns the build's arguments. No context and no
// problem: the stock image does not exist yet.
func load(
	ctx context.Context,
	on *engine.Engine,
	model imageModel,
) (*buildcontext.Context, map[string]string, diag.Diagnostics) {
	var diagnostics diag.Diagnostics
	spec := buildcontext.Spec{
		Dir:        model.Context.ValueString(),
		Dockerfile: model.Dockerfile.ValueString(),
		Target:     model.Target.ValueString(),
	}
	diagnostics.Append(model.Ignore.ElementsAs(ctx, &spec.Ignore, false)...)
	diagnostics.Append(model.Files.ElementsAs(ctx, &spec.Files, false)...)
	diagnostics.Append(model.BuildArgs.ElementsAs(ctx, &spec.BuildArgs, false)...)
	if base := model.BaseImage.ValueString(); base != "" {
		found, err := on.ImageInspect(ctx, base)
		if err != nil {
			diagnostics.Append(imageMissing(path.Root("base_image"), base, err))
			return nil, nil, diagnostics
		}
		spec.BaseID = found.ID
	}
	if stock := model.StockImage.ValueString(); stock != "" {
		found, err := on.ImageInspect(ctx, stock)
		if cerrdefs.IsNotFound(err) {
			return nil, nil, diagnostics
		}
		if err != nil {
			diagnostics.Append(imageMissing(path.Root("stock_image"), stock, err))
			return nil, nil, diagnostics
		}
		spec.StockID = found.ID
		spec.BuildArgs = withStock(spec.BuildArgs, stock, found)
	}
	files, err := buildcontext.Load(spec)
	if err != nil {
		diagnostics.Append(diag.WithPath(path.Root("context"), problem{
			summary: "The build context of " + model.Tag.ValueString() + " is not complete",
			expected: fmt.Sprintf(
				"a directory %s with %s, and every file of `files`",
				spec.Dir,
				spec.Dockerfile,
			),
			got:  err.Error(),
			hint: "make what is missing (`make build` compiles the agents), or correct the path",
		}.diagnostic()))
	}
	return files, spec.BuildArgs, diagnostics
}

func imageMissing(at path.Path, name string, err error) diag.Diagnostic {
	if !cerrdefs.IsNotFound(err) {
		return unexpected("look up the image "+name, err)
	}
	return diag.WithPath(at, problem{
		summary:  "Image " + name + " is missing",
		expected: "the image in this Docker engine",
		got:      err.Error(),
		hint: "for sparecraft/base run `make setup`, for a public image `docker pull " + name +
			"`, for a role's image apply its fleet_image",
	}.diagnostic())
}

func (r *imageResource) Create(
	ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse,
) {
	var plan imageModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	if response.Diagnostics.HasError() {
		return
	}
	limited, cancel := within(ctx, plan.Timeouts.Create, buildLimit, &response.Diagnostics)
	defer cancel()
	response.Diagnostics.Append(r.ensure(limited, &plan)...)
	if !response.Diagnostics.HasError() {
		response.Diagnostics.Append(response.State.Set(ctx, plan)...)
	}
}

func (r *imageResource) Update(
	ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse,
) {
	var plan imageModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	if response.Diagnostics.HasError() {
		return
	}
	limited, cancel := within(ctx, plan.Timeouts.Update, buildLimit, &response.Diagnostics)
	defer cancel()
	response.Diagnostics.Append(r.ensure(limited, &plan)...)
	if !response.Diagnostics.HasError() {
		response.Diagnostics.Append(response.State.Set(ctx, plan)...)
	}
}

// ensure builds the image on the first host and copies it to the others, unless the tag there already
// holds this very content.
func (r *imageResource) ensure(ctx context.Context, plan *imageModel) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	at := r.hostsOf(ctx, *plan, &diagnostics)
	if diagnostics.HasError() {
		return diagnostics
	}
	diagnostics.Append(pullStock(ctx, at[0], plan.StockImage.ValueString())...)
	if diagnostics.HasError() {
		return diagnostics
	}
	files, arguments, problems := load(ctx, at[0], *plan)
	diagnostics.Append(problems...)
	if diagnostics.HasError() {
		return diagnostics
	}
	tag := plan.Tag.ValueString()
	if !plan.ContentHash.IsUnknown() && plan.ContentHash.ValueString() != files.Hash {
		diagnostics.Append(problem{
			summary:  "The build context of " + tag + " changed after the plan",
			expected: "content hash " + plan.ContentHash.ValueString() + " as planned",
			got:      files.Hash,
			hint:     "apply again",
		}.diagnostic())
		return diagnostics
	}
	if found, err := at[0].ImageInspect(ctx, tag); err != nil || hashLabel(found) != files.Hash {
		diagnostics.Append(buildOn(ctx, at[0], *plan, arguments, files)...)
	}
	if diagnostics.HasError() {
		return diagnostics
	}
	diagnostics.Append(copyTo(ctx, at[0], at[1:], tag, files.Hash)...)
	if !diagnostics.HasError() {
		diagnostics.Append(plan.look(ctx, at)...)
	}
	return diagnostics
}

func buildOn(
	ctx context.Context,
	on *engine.Engine,
	plan imageModel,
	arguments map[string]string,
	files *buildcontext.Context,
) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	build := engine.BuildRequest{
		Tag:        plan.Tag.ValueString(),
		Dockerfile: plan.Dockerfile.ValueString(),
		Target:     plan.Target.ValueString(),
		BuildArgs:  arguments,
	}
	if err := on.Build(ctx, build, files); err != nil {
		diagnostics.Append(problem{
			summary:  "The build of " + build.Tag + " failed",
			expected: "every step of its Dockerfile to end with 0",
			got:      err.Error(),
			hint:     "correct the step that failed and apply again; the steps before it are cached",
		}.diagnostic())
	}
	return diagnostics
}

func hashLabel(found image.InspectResponse) string {
	if found.Config == nil {
		return ""
	}
	return found.Config.Labels[engine.LabelHash]
}

func (r *imageResource) Read(
	ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse,
) {
	var state imageModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	at, _ := r.present(ctx, state, &response.Diagnostics)
	response.Diagnostics.Append(state.look(ctx, at)...)
	if state.ID.IsNull() {
		response.State.RemoveResource(ctx)
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, state)...)
}

func (r *imageResource) Delete(
	ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse,
) {
	var state imageModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() || state.Retain.ValueBool() {
		return
	}
	limited, cancel := within(ctx, state.Timeouts.Delete, deleteLimit, &response.Diagnostics)
	defer cancel()
	at, _ := r.present(ctx, state, &response.Diagnostics)
	for _, on := range at {
		response.Diagnostics.Append(removeFrom(limited, on, state.Tag.ValueString())...)
	}
}

func removeFrom(ctx context.Context, on *engine.Engine, tag string) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	_, err := on.ImageRemove(ctx, tag, image.RemoveOptions{PruneChildren: true})
	switch {
	case err == nil || cerrdefs.IsNotFound(err):
	case cerrdefs.IsConflict(err):
		diagnostics.Append(problem{
			summary:  "Image " + tag + " is in use on host " + on.Host.Name,
			expected: "no container to use it",
			got:      err.Error(),
			hint:     "destroy the fleet that uses it first, or set retain = true",
		}.diagnostic())
	default:
		diagnostics.Append(unexpected("remove the image "+tag, err))
	}
	return diagnostics
}

// ImportState takes the image's tag, on the first host.
func (r *imageResource) ImportState(
	ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse,
) {
	if _, err := r.hosts[0].ImageInspect(ctx, request.ID); err != nil {
		response.Diagnostics.Append(imageMissing(path.Root("tag"), request.ID, err))
		return
	}
	response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root("tag"), request.ID)...)
}
