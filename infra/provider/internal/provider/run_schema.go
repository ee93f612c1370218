package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/float64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func (r *runResource) Schema(
	ctx context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse,
) {
	attributes := runInputs(ctx)
	for name, attribute := range runFindings() {
		attributes[name] = attribute
	}
	response.Schema = schema.Schema{
		Description: "An experiment: apply carries it out with the `sparecraft` command, on a fleet that it makes and " +
			"removes, or on one that is there. Whatever changes but fail_on_slo, identity, command, " +
			"quiet_wait_s and timeouts runs it again. Destroy leaves the results.",
		Attributes: attributes,
	}
}

func runInputs(ctx context.Context) map[string]schema.Attribute {
	notEmpty := []validator.String{stringvalidator.LengthAtLeast(1)}
	limit, isObject := timeouts.Attributes(ctx, timeouts.Opts{
		Create:            true,
		CreateDescription: fmt.Sprintf("Most that a run may take, such as \"45m\"; by default %s.", runLimit),
	}).(schema.SingleNestedAttribute)
	if !isObject {
		panic("timeouts.Attributes made no object")
	}
	limit.Description = "How long a run may take. Then it is interrupted."
	return map[string]schema.Attribute{
		"design": schema.StringAttribute{
			Required: true, PlanModifiers: replaceString, Validators: notEmpty,
			Description: "Folder of the design (fleet.tfvars, experiment.toml), or the name of one that comes with " +
				"Sparecraft. Changed files run it again.",
		},
		"fleet": schema.StringAttribute{
			Optional: true, PlanModifiers: replaceString,
			Validators: append(notEmpty, stringvalidator.AlsoRequires(path.MatchRoot("identity"))),
			Description: "Inventory of a fleet that is there (`jsonencode` of a module's output `fleet`): it is measured, " +
				"and neither changed nor removed. Without it the run makes the design's fleet and removes it.",
		},
		"identity": schema.StringAttribute{
			Optional: true, Sensitive: true,
			Validators:  append(notEmpty, stringvalidator.AlsoRequires(path.MatchRoot("fleet"))),
			Description: "Keys to talk to that fleet (`jsonencode` of the output `identity`). New ones run nothing again.",
		},
		"seed": schema.Int64Attribute{
			Optional: true, PlanModifiers: replaceInt64, Validators: []validator.Int64{int64validator.AtLeast(0)},
			Description: "Seed of arrivals, neighbours and faults; by default the design's, or a new one.",
		},
		"quiet_wait_s": schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(0, 600)},
			Description: "Most seconds that each block of load may wait until other work leaves the host; disturbed " +
				"blocks are measured again. By default a run does not wait.",
		},
		"results": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString("results"),
			PlanModifiers: replaceString, Validators: notEmpty,
			Description: "Folder that runs are kept in, from where Terraform is called; by default results.",
		},
		"triggers": schema.MapAttribute{
			Optional: true, ElementType: types.StringType, PlanModifiers: replaceMap,
			Description: "Anything: when it changes, the experiment is run again.",
		},
		"fail_on_slo": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			Description: "Fail the apply where the SLO was missed or the run is not valid, for a pipeline that is to " +
				"stop there; by default only a warning says so.",
		},
		"command": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString("sparecraft"), Validators: notEmpty,
			Description: "The `sparecraft` command: a path, or a name on PATH. By default sparecraft.",
		},
		"timeouts": limit,
	}
}

func runFindings() map[string]schema.Attribute {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, Description: description, PlanModifiers: keepString}
	}
	yes := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{
			Computed: true, Description: description,
			PlanModifiers: []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()},
		}
	}
	number := func(description string) schema.Float64Attribute {
		return schema.Float64Attribute{
			Computed: true, Description: description,
			PlanModifiers: []planmodifier.Float64{float64planmodifier.UseStateForUnknown()},
		}
	}
	return map[string]schema.Attribute{
		"design_sha256": schema.StringAttribute{
			Computed:    true,
			Description: "Hash of the files of the design's folder; empty for a design that comes with Sparecraft.",
		},
		"run":    text("Name of the run: when it began (UTC)."),
		"folder": text("Folder of the run's files."),
		"report": text("Page of the run, report.html."),
		"verdict": text("met, missed or undecided (of the SLO), measured (none was asked for), disturbed or not valid " +
			"(nothing may be concluded), interrupted."),
		"valid":   yes("True if the run supports conclusions."),
		"slo_met": yes("True if the SLO was met; null if that is undecided, or none was asked for."),
		"p95_ms": number("95th percentile of the latency in ms, of the arm that the SLO is asked of; null where " +
			"the kind of experiment has none."),
		"usd_per_month": number("Price of the planned fleet; null where none was planned, or the plan is undecided."),
		"plan": text("The plan as JSON (`jsondecode`): feasible (null: undecided), tiers, predicted, reasons, and " +
			"tfvars, the next fleet's; null where the kind of experiment plans none."),
	}
}
