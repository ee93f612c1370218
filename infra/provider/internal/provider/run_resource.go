package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"sparecraft/infra/provider/internal/buildcontext"
	"sparecraft/infra/provider/internal/sparecraft"
)

// runLimit bounds a run, unless timeouts has another value.
const runLimit = 12 * time.Hour

var (
	_ resource.ResourceWithConfigure  = (*runResource)(nil)
	_ resource.ResourceWithModifyPlan = (*runResource)(nil)
)

// runResource is a completed experiment: its files stay when it is destroyed.
type runResource struct{ *connection }

type runModel struct {
	Design       types.String   `tfsdk:"design"`
	DesignSHA256 types.String   `tfsdk:"design_sha256"`
	Fleet        types.String   `tfsdk:"fleet"`
	Identity     types.String   `tfsdk:"identity"`
	Seed         types.Int64    `tfsdk:"seed"`
	QuietWaitS   types.Int64    `tfsdk:"quiet_wait_s"`
	Results      types.String   `tfsdk:"results"`
	Triggers     types.Map      `tfsdk:"triggers"`
	FailOnSLO    types.Bool     `tfsdk:"fail_on_slo"`
	Command      types.String   `tfsdk:"command"`
	Timeouts     timeouts.Value `tfsdk:"timeouts"`

	Run         types.String  `tfsdk:"run"`
	Folder      types.String  `tfsdk:"folder"`
	Report      types.String  `tfsdk:"report"`
	Verdict     types.String  `tfsdk:"verdict"`
	Valid       types.Bool    `tfsdk:"valid"`
	SLOMet      types.Bool    `tfsdk:"slo_met"`
	P95MS       types.Float64 `tfsdk:"p95_ms"`
	USDPerMonth types.Float64 `tfsdk:"usd_per_month"`
	Plan        types.String  `tfsdk:"plan"`
}

func newRun() resource.Resource { return &runResource{} }

func (r *runResource) Metadata(
	_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse,
) {
	response.TypeName = "fleet_run"
}

func (r *runResource) Configure(
	_ context.Context, request resource.ConfigureRequest, response *resource.ConfigureResponse,
) {
	r.connection = connected(request.ProviderData, &response.Diagnostics)
}

// ModifyPlan runs a design again whose files changed.
func (r *runResource) ModifyPlan(
	ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse,
) {
	if request.Plan.Raw.IsNull() {
		return
	}
	var design types.String
	response.Diagnostics.Append(request.Plan.GetAttribute(ctx, path.Root("design"), &design)...)
	if design.IsUnknown() || response.Diagnostics.HasError() {
		return
	}
	at := path.Root("design_sha256")
	sum, err := hashOf(design.ValueString())
	if err != nil {
		response.Diagnostics.AddAttributeError(path.Root("design"), "The design cannot be read", err.Error())
		return
	}
	response.Diagnostics.Append(response.Plan.SetAttribute(ctx, at, sum)...)
	if request.State.Raw.IsNull() {
		return
	}
	var before types.String
	response.Diagnostics.Append(request.State.GetAttribute(ctx, at, &before)...)
	if before.ValueString() != sum {
		response.RequiresReplace = append(response.RequiresReplace, at)
	}
}

// hashOf covers the files of a design's folder; empty for a design that comes with Sparecraft, or that is
// made in the same apply.
func hashOf(design string) (string, error) {
	if info, err := os.Stat(design); err != nil || !info.IsDir() {
		return "", nil //nolint:nilerr // no folder, so a name
	}
	files, err := buildcontext.Load(buildcontext.Spec{
		Dir: design, Dockerfile: "fleet.tfvars", Ignore: []string{"**/__pycache__", "results"},
	})
	if err != nil {
		return "", fmt.Errorf("expected a folder with fleet.tfvars and experiment.toml: %w", err)
	}
	return files.Hash, nil
}

func (r *runResource) Create(
	ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse,
) {
	var plan runModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	limit, problems := plan.Timeouts.Create(ctx, runLimit)
	response.Diagnostics.Append(problems...)
	if response.Diagnostics.HasError() {
		return
	}
	call, err := plan.call()
	if err != nil {
		response.Diagnostics.AddError("The folder of results has no absolute path", err.Error())
		return
	}
	release, waited := r.takeTurn(ctx)
	if !waited {
		response.Diagnostics.AddError("Interrupted before the run began", "Nothing was made or measured. Apply again.")
		return
	}
	defer release()

	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := call.Do(bounded, os.Environ(), r.now, func(line string) {
		tflog.Info(ctx, line, map[string]any{"design": plan.Design.ValueString()})
	})
	var failed *sparecraft.Failed
	switch {
	case errors.As(err, &failed):
		response.Diagnostics.Append(endedEarly(failed))
		if !failed.Interrupted && failed.Folder == "" {
			return // nothing was made that a state could name
		}
		plan.unfinished(failed)
	case err != nil:
		response.Diagnostics.AddError("The run failed", err.Error())
		return
	default:
		plan.take(result)
		response.Diagnostics.Append(judged(result, plan.FailOnSLO.ValueBool())...)
	}
	// With an error beside it Terraform taints what is set here: the next apply measures anew.
	response.Diagnostics.Append(response.State.Set(context.WithoutCancel(ctx), plan)...)
}

// takeTurn waits for other runs of this configuration, which would disturb this one.
func (r *runResource) takeTurn(ctx context.Context) (release func(), ok bool) {
	select {
	case r.turn <- struct{}{}:
		return func() { <-r.turn }, true
	case <-ctx.Done():
		return nil, false
	}
}

// call has absolute paths, as the report and the folder stand in the state.
func (m *runModel) call() (sparecraft.Run, error) {
	results, err := filepath.Abs(m.Results.ValueString())
	return sparecraft.Run{
		Command: m.Command.ValueString(),
		Design:  m.Design.ValueString(),
		Results: results,
		Seed:    m.Seed.ValueInt64Pointer(),

		QuietWaitS: m.QuietWaitS.ValueInt64(),

		Fleet:    m.Fleet.ValueString(),
		Identity: m.Identity.ValueString(),
	}, err
}

func (m *runModel) take(result *sparecraft.Result) {
	m.Run = types.StringValue(result.Run)
	m.Folder = types.StringValue(result.Folder)
	m.Report = textOrNull(result.Report)
	m.Verdict = types.StringValue(result.Verdict)
	m.Valid = types.BoolValue(result.Valid)
	m.SLOMet = types.BoolPointerValue(result.Met)
	m.P95MS = types.Float64PointerValue(result.P95MS)
	m.USDPerMonth = types.Float64PointerValue(result.USDPerMonth)
	m.Plan = textOrNull(result.Plan)
}

// unfinished describes the files of a run without a result.
func (m *runModel) unfinished(failed *sparecraft.Failed) {
	m.take(&sparecraft.Result{Verdict: sparecraft.NotValid, Folder: failed.Folder})
	if failed.Interrupted {
		m.Verdict = types.StringValue(sparecraft.Interrupted)
	}
	m.Run, m.Folder = textOrNull(""), textOrNull(failed.Folder)
	if failed.Folder == "" {
		return
	}
	m.Run = types.StringValue(filepath.Base(failed.Folder))
	if report := filepath.Join(failed.Folder, "report.html"); fileExists(report) {
		m.Report = types.StringValue(report)
	}
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func textOrNull(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

func endedEarly(failed *sparecraft.Failed) diag.Diagnostic {
	summary := "The run came to no result"
	if failed.Interrupted {
		summary = "The run was interrupted"
	}
	got := failed.Got
	if failed.Folder != "" {
		got += "; what was measured until then is in " + failed.Folder
	}
	hint := failed.Hint
	if hint == "" {
		hint = "apply again"
	}
	return problem{
		summary:  summary,
		expected: failed.Place + ": " + failed.Expected,
		got:      got,
		hint:     hint,
	}.diagnostic()
}

// judged fails an apply that has to keep an SLO, and one that left something behind; otherwise it
// warns.
func judged(result *sparecraft.Result, failOnSLO bool) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	if result.Passed() {
		return diagnostics
	}
	if len(result.Left) > 0 {
		diagnostics.AddError("The run left something behind",
			strings.Join(append(result.Left, "`sparecraft down EXPERIMENT` removes it."), "\n"))
	}
	summary := "The run is valid, and its SLO was missed"
	if !result.Valid {
		summary = "The run is not valid: it says nothing about the SLO"
	}
	reasons := result.Reasons
	if result.Report != "" {
		reasons = append(reasons, "Report: "+result.Report)
	}
	detail := strings.Join(reasons, "\n")
	if result.Valid && (result.Met == nil || *result.Met) {
		return diagnostics // only something was left
	}
	if failOnSLO {
		diagnostics.AddError(summary, detail)
	} else {
		diagnostics.AddWarning(summary, detail)
	}
	return diagnostics
}

// Read keeps the state: a run does not change after its end.
func (r *runResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update changes the next run. A missed SLO fails the apply that requires it.
func (r *runResource) Update(
	ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse,
) {
	var plan runModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	if response.Diagnostics.HasError() {
		return
	}
	if plan.FailOnSLO.ValueBool() && (!plan.Valid.ValueBool() || plan.SLOMet.Equal(types.BoolValue(false))) {
		response.Diagnostics.AddAttributeError(path.Root("fail_on_slo"), "The run at hand did not keep its SLO",
			"Its verdict is \""+plan.Verdict.ValueString()+"\". Report: "+plan.Report.ValueString()+
				"\nHint: change the design, or a value in triggers, and apply: it measures anew.")
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, plan)...)
}

// Delete leaves the results where they are.
func (r *runResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}
