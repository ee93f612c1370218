package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/docker/docker/api/types/blkiodev"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/engine"
)

const (
	cpuPeriodUs = 10_000
	bytesPerMB  = 1 << 20
	stopLimitS  = 5
	loopback    = "127.0.0.1"
)

type machineModel struct {
	ID             types.String  `tfsdk:"id"`
	Name           types.String  `tfsdk:"name"`
	Host           types.String  `tfsdk:"host"`
	Experiment     types.String  `tfsdk:"experiment"`
	Role           types.String  `tfsdk:"role"`
	Tier           types.String  `tfsdk:"tier"`
	Standby        types.Bool    `tfsdk:"standby"`
	Data           *machineNet   `tfsdk:"data"`
	Control        *machineNet   `tfsdk:"control"`
	PublishedPorts types.Map     `tfsdk:"published_ports"`
	CPUs           types.Float64 `tfsdk:"cpus"`
	MemoryMB       types.Int64   `tfsdk:"memory_mb"`
	NICMbps        types.Int64   `tfsdk:"nic_mbps"`
	DiskMbps       types.Int64   `tfsdk:"disk_mbps"`
	Image          types.String  `tfsdk:"image"`
	Command        types.List    `tfsdk:"command"`
	Environment    types.Map     `tfsdk:"environment"`
	Files          types.Map     `tfsdk:"files"`
	FilesSHA256    types.Map     `tfsdk:"files_sha256"`
	ContainerName  types.String  `tfsdk:"container_name"`
	Running        types.Bool    `tfsdk:"running"`

	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

type machineNet struct {
	Network types.String `tfsdk:"network"`
	Address types.String `tfsdk:"address"`
}

type machineFile struct {
	Content types.String `tfsdk:"content"`
	Mode    types.String `tfsdk:"mode"`
}

// specLabel has the values that an import needs and Docker does not keep.
type specLabel struct {
	DataAddress    string   `json:"data_address"`
	ControlAddress string   `json:"control_address"`
	NICMbps        int64    `json:"nic_mbps"`
	DiskMbps       int64    `json:"disk_mbps"`
	Files          []string `json:"files,omitempty"`
	Environment    []string `json:"environment,omitempty"`
	Command        bool     `json:"command,omitempty"`
}

// desired is a machine in Docker's terms.
type desired struct {
	name     string
	diskMbps int64
	files    map[string]engine.File
	config   *container.Config
	host     *container.HostConfig
	network  *network.NetworkingConfig
}

func (m machineModel) containerName() string {
	return "sc-" + m.Experiment.ValueString() + "-" + m.Name.ValueString()
}

func (n machineNet) endpoint() *network.EndpointSettings {
	return &network.EndpointSettings{
		IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: n.Address.ValueString()},
	}
}

func cpuQuotaUs(cpus float64) int64 { return int64(math.Round(cpus * cpuPeriodUs)) }

// limits are the resources that Docker can change in place.
func (m machineModel) limits() container.UpdateConfig {
	memory := m.MemoryMB.ValueInt64() * bytesPerMB
	return container.UpdateConfig{Resources: container.Resources{
		CPUPeriod: cpuPeriodUs, CPUQuota: cpuQuotaUs(m.CPUs.ValueFloat64()),
		Memory: memory, MemorySwap: memory,
	}}
}

func (m machineModel) desired(ctx context.Context) (*desired, diag.Diagnostics) {
	var command []string
	var environment map[string]string
	var files map[string]machineFile
	var ports map[string]int64
	diagnostics := m.Command.ElementsAs(ctx, &command, false)
	diagnostics.Append(m.Environment.ElementsAs(ctx, &environment, false)...)
	diagnostics.Append(m.Files.ElementsAs(ctx, &files, false)...)
	diagnostics.Append(m.PublishedPorts.ElementsAs(ctx, &ports, false)...)
	if diagnostics.HasError() {
		return nil, diagnostics
	}
	label, err := json.Marshal(specLabel{
		DataAddress: m.Data.Address.ValueString(), ControlAddress: m.Control.Address.ValueString(),
		NICMbps: m.NICMbps.ValueInt64(), DiskMbps: m.DiskMbps.ValueInt64(), Command: len(command) > 0,
		Files: slices.Sorted(maps.Keys(files)), Environment: slices.Sorted(maps.Keys(environment)),
	})
	if err != nil {
		diagnostics.AddError("Provider defect", err.Error())
		return nil, diagnostics
	}
	exposed, bindings := portMaps(ports)
	stopS := stopLimitS
	config := &container.Config{
		Hostname: m.Name.ValueString(), Image: m.Image.ValueString(), Cmd: command, ExposedPorts: exposed,
		StopTimeout: &stopS, Labels: m.labels(string(label)),
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		config.Env = append(config.Env, name+"="+environment[name])
	}
	data := m.Data.Network.ValueString()
	return &desired{
		name: m.containerName(), diskMbps: m.DiskMbps.ValueInt64(), files: fileContents(files),
		config: config, host: m.hostConfig(bindings),
		network: &network.NetworkingConfig{
			EndpointsConfig: map[string]*network.EndpointSettings{data: m.Data.endpoint()},
		},
	}, diagnostics
}

// hostConfig gives what a machine's process 1 needs to act as a machine: shaping its interface
// (NET_ADMIN), mounting and splitting its own cgroup (SYS_ADMIN, which AppArmor's default
// profile for containers would still forbid), and a file system of its own under a role's data.
func (m machineModel) hostConfig(bindings nat.PortMap) *container.HostConfig {
	return &container.HostConfig{
		NetworkMode:  container.NetworkMode(m.Data.Network.ValueString()),
		PortBindings: bindings,
		CapAdd:       []string{"NET_ADMIN", "SYS_ADMIN"},
		SecurityOpt:  []string{"apparmor=unconfined"},
		CgroupnsMode: container.CgroupnsModePrivate,
		Resources:    m.limits().Resources,
		LogConfig: container.LogConfig{
			Type:   "json-file",
			Config: map[string]string{"max-size": "10m", "max-file": "2"},
		},
	}
}

func (m machineModel) labels(spec string) map[string]string {
	labels := map[string]string{
		engine.LabelExperiment: m.Experiment.ValueString(),
		engine.LabelMachine:    m.Name.ValueString(),
		engine.LabelRole:       m.Role.ValueString(),
		engine.LabelSpec:       spec,
	}
	if !m.Tier.IsNull() {
		labels[engine.LabelTier] = m.Tier.ValueString()
	}
	return labels
}

func (d *desired) throttle(device string) {
	limit := []*blkiodev.ThrottleDevice{{Path: device, Rate: uint64(d.diskMbps) * bytesPerMB}}
	d.host.BlkioDeviceReadBps, d.host.BlkioDeviceWriteBps = limit, limit
}

func portMaps(ports map[string]int64) (nat.PortSet, nat.PortMap) {
	exposed, bindings := nat.PortSet{}, nat.PortMap{}
	for inside, outside := range ports {
		port := nat.Port(inside + "/tcp")
		exposed[port] = struct{}{}
		bindings[port] = []nat.PortBinding{{HostIP: loopback, HostPort: strconv.FormatInt(outside, 10)}}
	}
	return exposed, bindings
}

func fileContents(files map[string]machineFile) map[string]engine.File {
	contents := map[string]engine.File{}
	for name, file := range files {
		mode, err := strconv.ParseInt(file.Mode.ValueString(), 8, 32)
		if err != nil { // the schema admits octal modes only
			panic(fmt.Sprintf("mode %s of %s passed validation", file.Mode, name))
		}
		contents[name] = engine.File{Content: file.Content.ValueString(), Mode: mode}
	}
	return contents
}

// networkOf finds the attached network that has the address: its key in the list, and its id.
func networkOf(attached map[string]*network.EndpointSettings, address string) (name, id string) {
	for name, endpoint := range attached {
		if endpoint.IPAMConfig != nil && endpoint.IPAMConfig.IPv4Address == address {
			return name, endpoint.NetworkID
		}
	}
	return "", ""
}
