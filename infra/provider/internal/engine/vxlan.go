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

// MTUOption is the option of Docker's bridge driver for the MTU.
const MTUOption = "com.docker.network.driver.mtu"

const (
	bridgeOption    = "com.docker.network.bridge.name"
	usualMTU        = "1500"
	vxlanReadyLimit = 30 * time.Second
	vxlanPoll       = 100 * time.Millisecond
	vxlanStopS      = 5
	linkVariable    = "LINK=" // its name has 15 bytes, as long as a name may be
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

// StartVXLAN makes the container and waits until the interface is there. The id is returned also
// with an error, for whatever has to be removed.
func (e *Engine) StartVXLAN(ctx context.Context, wanted VXLAN) (string, error) {
	found, err := e.NetworkInspect(ctx, wanted.Network, network.InspectOptions{})
	if err != nil {
		return "", fmt.Errorf("inspect the network: %w", err)
	}
	created, err := e.ContainerCreate(ctx, wanted.config(found), onHostsNetwork(), nil, nil, wanted.Name)
	if err != nil {
		return "", err
	}
	if err := e.ContainerStart(ctx, created.ID, container.StartOptions{}); err != nil {
		return created.ID, err
	}
	ready, cancel := context.WithTimeout(ctx, vxlanReadyLimit)
	defer cancel()
	if err := e.untilReady(ready, created.ID); err != nil {
		return created.ID, err
	}
	_, err = e.ContainerUpdate(ctx, created.ID, container.UpdateConfig{
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyUnlessStopped},
	})
	return created.ID, err
}

func onHostsNetwork() *container.HostConfig {
	return &container.HostConfig{NetworkMode: "host", CapAdd: []string{"NET_ADMIN"}}
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
			linkVariable + "vx-" + on.ID[:12], "VNI=" + strconv.FormatInt(v.VNI, 10), "PORT=" + strconv.FormatInt(v.Port, 10),
			"LOCAL=" + v.Local, "BRIDGE=" + bridge, "MTU=" + mtu, "PEERS=" + strings.Join(v.Peers, " "),
		},
		StopTimeout: &stopS,
	}
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

// EndVXLAN removes interface and container. One that was killed has left its interface.
func (e *Engine) EndVXLAN(ctx context.Context, id string) error {
	found, err := e.ContainerInspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if found.State.Running {
		limitS := vxlanStopS
		err = e.ContainerStop(ctx, id, container.StopOptions{Timeout: &limitS})
	} else {
		err = e.removeLink(ctx, found.Config)
	}
	if err != nil {
		return err
	}
	err = e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

func (e *Engine) removeLink(ctx context.Context, of *container.Config) error {
	for _, variable := range of.Env {
		if link, is := strings.CutPrefix(variable, linkVariable); is {
			_, err := e.runOnce(ctx, &container.Config{
				Image: of.Image, Labels: of.Labels, Entrypoint: []string{"sh", "-c"},
				Cmd: []string{"! ip link show dev " + link + " 2>/dev/null || ip link delete " + link},
			}, onHostsNetwork())
			return err
		}
	}
	return nil
}
