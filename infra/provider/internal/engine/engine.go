// Package engine is the seam to Docker: the connection, and what is asked of it in more than one
// step (building an image, finding the disk, placing files). Resources say what they want;
// how an Engine of API 1.41 or later does it is known here only. Nothing of an engine's host is
// looked at from here but through its API: it may be another machine.
package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
)

const pingLimit = 20 * time.Second

// Labels that everything made here carries, so that it can be found and removed by experiment.
const (
	LabelExperiment = "sparecraft.experiment"
	LabelMachine    = "sparecraft.machine"
	LabelRole       = "sparecraft.role"
	LabelTier       = "sparecraft.tier"
	LabelSpec       = "sparecraft.spec"
	LabelTag        = "sparecraft.tag"
	LabelHash       = "sparecraft.content-hash"
)

// Engine is a connected Docker engine.
type Engine struct {
	*client.Client

	Host Host

	membership sync.Mutex // of networks

	probe    sync.Mutex // of the host, below
	hardware *Hardware
}

// Connect reaches an engine and agrees on an API version with it.
func Connect(ctx context.Context, host Host) (*Engine, error) {
	options, err := host.options()
	if err != nil {
		return nil, err
	}
	docker, err := client.NewClientWithOpts(append(options, client.WithAPIVersionNegotiation())...)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", host.Address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if _, err := docker.Ping(ctx); err != nil {
		return nil, fmt.Errorf("reach Docker at %s: %w", host.Address, err)
	}
	return &Engine{Client: docker, Host: host}, nil
}

// Start starts a container, one at a time: an engine whose containers join or leave a network at
// once can lose count of its endpoints (moby issue 42119), and then does not remove that network
// until it is restarted.
func (e *Engine) Start(ctx context.Context, id string) error {
	e.membership.Lock()
	defer e.membership.Unlock()
	return e.ContainerStart(ctx, id, container.StartOptions{})
}

// Leave takes a container off all its networks, one at a time for the same reason, so that
// containers can then be stopped and removed side by side. One that is gone has left.
func (e *Engine) Leave(ctx context.Context, id string) error {
	found, err := e.ContainerInspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("inspect container %s: %w", id, err)
	}
	e.membership.Lock()
	defer e.membership.Unlock()
	for name := range found.NetworkSettings.Networks {
		err := e.NetworkDisconnect(ctx, name, id, true)
		if err != nil && !cerrdefs.IsNotFound(err) {
			return fmt.Errorf("take container %s off network %s: %w", id, name, err)
		}
	}
	return nil
}
