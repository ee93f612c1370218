package engine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

// MTUOption is how Docker's bridge driver calls the largest packet.
const MTUOption = "com.docker.network.driver.mtu"

const (
	bridgeOption    = "com.docker.network.bridge.name"
	usualMTU        = "1500"
	vxlanReadyLimit = 30 * time.Second
	vxlanPoll       = 100 * time.Millisecond
	vxlanStopS      = 5
)

//go:embed vxlan.sh
var vxlanScript string

// VXLAN joins a bridge network of this engine with those of other hosts: an interface on the bridge that
// packs frames into UDP, to peers that are known by address (RFC 7348, without multicast). A container
// on the host's network makes it and removes it when it is stopped.
type VXLAN struct {
	Name       string // of the container
	Experiment string
	Image      string // with a shell and iproute2
	Network    string // name or id
	VNI        int64
	Port       int64
	Local      string
	Peers      []string
}

// Link is the name of the interface.
func (v VXLAN) Link() string { return "scvx" + strconv.FormatInt(v.VNI, 10) }

// StartVXLAN makes the container and waits until the interface is there. The id is returned also
// with an error, for whatever has to be removed.
func (e *Engine) StartVXLAN(ctx context.Context, wanted VXLAN) (string, error) {
	found, err := e.NetworkInspect(ctx, wanted.Network, network.InspectOptions{})
	if err != nil {
		return "", fmt.Errorf("inspect the network: %w", err)
	}
	created, err := e.ContainerCreate(ctx, wanted.config(found), &container.HostConfig{
		NetworkMode: "host", CapAdd: []string{"NET_ADMIN"},
	}, nil, nil, wanted.Name)
	if err != nil {
		return "", err
	}
	return created.ID, e.ResumeVXLAN(ctx, created.ID)
}

func (v VXLAN) config(on network.Inspect) *container.Config {
	bridge, mtu := on.Options[bridgeOption], on.Options[MTUOption]
	if bridge == "" {
		bridge = "br-" + on.ID[:12]
	}
	if mtu == "" {
		mtu = usualMTU
	}
	stopS := vxlanStopS
	return &container.Config{
		Image:      v.Image,
		Entrypoint: []string{"sh", "-c", vxlanScript},
		Labels:     map[string]string{LabelExperiment: v.Experiment},
		Env: []string{
			"LINK=" + v.Link(), "VNI=" + strconv.FormatInt(v.VNI, 10), "PORT=" + strconv.FormatInt(v.Port, 10),
			"LOCAL=" + v.Local, "BRIDGE=" + bridge, "MTU=" + mtu, "PEERS=" + strings.Join(v.Peers, " "),
		},
		StopTimeout: &stopS,
	}
}

// ResumeVXLAN starts the container, and has the engine start it again should it end.
func (e *Engine) ResumeVXLAN(ctx context.Context, id string) error {
	if err := e.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, vxlanReadyLimit)
	defer cancel()
	if err := e.untilReady(ctx, id); err != nil {
		return err
	}
	_, err := e.ContainerUpdate(ctx, id, container.UpdateConfig{
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyUnlessStopped},
	})
	return err
}

func (e *Engine) untilReady(ctx context.Context, id string) error {
	for {
		found, err := e.ContainerInspect(ctx, id)
		if err != nil {
			return err
		}
		said, err := e.Printed(ctx, id, "1")
		if err != nil {
			return err
		}
		if !found.State.Running {
			return errors.New(said)
		}
		if said == "ready" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; it said last: %s", ctx.Err(), said)
		case <-time.After(vxlanPoll):
		}
	}
}

// EndVXLAN removes interface and container. One that was killed is started once more, as it removes
// the interface that it left.
func (e *Engine) EndVXLAN(ctx context.Context, id string) error {
	found, err := e.ContainerInspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !found.State.Running {
		_ = e.ResumeVXLAN(ctx, id) // what it cannot make anew it still removes
	}
	limitS := vxlanStopS
	if err := e.ContainerStop(ctx, id, container.StopOptions{Timeout: &limitS}); err != nil {
		return err
	}
	err = e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}
