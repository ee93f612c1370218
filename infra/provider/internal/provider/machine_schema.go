package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

const (
	cpusMin     = 0.1 // the kernel's least quota is 1 ms, of a period of 10 ms
	cpusMax     = 512
	memoryMBMin = 6 // Docker's own least
)

var (
	replaceString = []planmodifier.String{stringplanmodifier.RequiresReplace()}
	replaceInt64  = []planmodifier.Int64{int64planmodifier.RequiresReplace()}
	replaceMap    = []planmodifier.Map{mapplanmodifier.RequiresReplace()}
	keepString    = []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	labels        = []validator.String{isLabel}
	positive      = []validator.Int64{int64validator.AtLeast(1)}
)

func (r *machineResource) Schema(
	ctx context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse,
) {
	attributes := map[string]schema.Attribute{
		"timeouts": timeoutsAttribute(ctx, createLimit, updateLimit, deleteLimit),
	}
	for _, group := range []map[string]schema.Attribute{
		machineIdentity(), machineLimits(), machineContent(), machineComputed(),
	} {
		for name, attribute := range group {
			attributes[name] = attribute
		}
	}
	response.Schema = schema.Schema{
		Description: "A machine: a container with a machine's limits, a data and a control interface, " +
			"and a desired state. cpus, memory_mb and standby change in place, all else replaces " +
			"the machine.",
		Attributes: attributes,
	}
}

// timeoutsAttribute bounds the engine's time for one resource, with a default.
func timeoutsAttribute(ctx context.Context, create, update, remove time.Duration) schema.Attribute {
	limit := func(doing string, usual time.Duration) string {
		return fmt.Sprintf("Most that %s may take, such as \"90s\" or \"10m\"; by default %s.", doing, usual)
	}
	attribute, isObject := timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, CreateDescription: limit("making it", create),
		Update: true, UpdateDescription: limit("changing it in place", update),
		Delete: true, DeleteDescription: limit("removing it", remove),
	}).(schema.SingleNestedAttribute)
	if !isObject {
		panic("timeouts.Attributes made no object")
	}
	attribute.Description = "How long the engine may take."
	return attribute
}

func machineIdentity() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, Description: "Name of the machine and its host name, such as web-1.",
			PlanModifiers: replaceString, Validators: labels,
		},
		"experiment": schema.StringAttribute{
			Required: true, PlanModifiers: replaceString, Validators: labels,
			Description: "Experiment that the machine belongs to; part of the container's name.",
		},
		"host": hostAttribute(),
		"role": schema.StringAttribute{
			Required: true, Description: "Role of the machine, such as mediawiki (a label).",
			PlanModifiers: replaceString, Validators: labels,
		},
		"tier": schema.StringAttribute{
			Optional: true, Description: "Tier that the machine is in or serves (a label).",
			PlanModifiers: replaceString, Validators: labels,
		},
		"standby": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			Description: "A cold spare: created, but not started. By default false.",
		},
		"data": machineInterface(
			"Interface that carries the service's traffic; faults touch only this one.",
		),
		"control": machineInterface("Interface that carries management; faults never touch it."),
		"published_ports": schema.MapAttribute{
			Optional: true, ElementType: types.Int64Type, PlanModifiers: replaceMap,
			Description: "TCP port of the machine to the port on 127.0.0.1 of its host. It leads to the data " +
				"address when the control network is internal; else to any of the two.",
			Validators: []validator.Map{
				keysAre{isPort}, mapvalidator.ValueInt64sAre(int64validator.Between(1, 65535)),
			},
		},
	}
}

func machineInterface(description string) schema.Attribute {
	return schema.SingleNestedAttribute{
		Required: true, Description: description,
		Attributes: map[string]schema.Attribute{
			"network": schema.StringAttribute{
				Required: true, Description: "Id of the fleet_network.", PlanModifiers: replaceString,
			},
			"address": schema.StringAttribute{
				Required: true, Description: "IPv4 address in that network.", PlanModifiers: replaceString,
				Validators: []validator.String{isAddress},
			},
		},
	}
}

func machineLimits() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cpus": schema.Float64Attribute{
			Required: true,
			Description: "CPU cap in CPUs, enforced over periods of 10 ms, so that a capped machine is " +
				"slow and not frozen in bursts.",
			Validators: []validator.Float64{float64validator.Between(cpusMin, cpusMax)},
		},
		"memory_mb": schema.Int64Attribute{
			Required: true, Description: "Memory limit in MB (2^20 bytes), without swap.",
			Validators: []validator.Int64{int64validator.AtLeast(memoryMBMin)},
		},
		"nic_mbps": schema.Int64Attribute{
			Required: true, PlanModifiers: replaceInt64, Validators: positive,
			Description: "Speed of the data interface in Mbit/s. Recorded here; process 1 of the machine " +
				"enforces it.",
		},
		"disk_mbps": schema.Int64Attribute{
			Required: true, PlanModifiers: replaceInt64, Validators: positive,
			Description: "Speed of the disk in MB/s (2^20 bytes), reads and writes each.",
		},
	}
}

func machineContent() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"image": schema.StringAttribute{
			Required: true, PlanModifiers: replaceString,
			Description: "Image to run; the id of a fleet_image, so that a rebuild replaces the machine.",
		},
		"command": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			Description:   "Command, instead of the image's own.",
			PlanModifiers: []planmodifier.List{listplanmodifier.RequiresReplace()},
			Validators:    []validator.List{listvalidator.SizeAtLeast(1)},
		},
		"environment": schema.MapAttribute{
			Optional: true, Sensitive: true, ElementType: types.StringType, PlanModifiers: replaceMap,
			Description: "Environment of process 1.",
		},
		"files": schema.MapNestedAttribute{
			Optional: true, PlanModifiers: replaceMap,
			Description: "Absolute path to the file to put there before the first start, owned by root.",
			Validators:  []validator.Map{keysAre{isFilePath}},
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"content": schema.StringAttribute{
					Required:    true,
					Sensitive:   true,
					Description: "Text of the file.",
				},
				"mode": schema.StringAttribute{
					Optional: true, Computed: true, Default: stringdefault.StaticString("0644"),
					Description: "Octal mode, by default 0644.", Validators: []validator.String{isMode},
				},
			}},
		},
	}
}

func machineComputed() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id": schema.StringAttribute{
			Computed: true, Description: "Docker's id of the container.", PlanModifiers: keepString,
		},
		"files_sha256": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			Description: "Path of each file to the SHA-256 of its content, which plans hide: these show which one changes.",
		},
		"container_name": schema.StringAttribute{
			Computed: true, Description: "sc-EXPERIMENT-NAME.", PlanModifiers: keepString,
		},
		"running": schema.BoolAttribute{
			Computed: true,
			Description: "True if the machine runs. Planned as the opposite of standby, so a killed " +
				"machine is drift.",
		},
	}
}
