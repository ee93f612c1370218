// Package engine is the seam to Docker: the connection, and what is asked of it in more than one
// step (building an image, finding the disk, placing files). Resources say what they want;
// how an Engine of API 1.41 or later does it is known here only.
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

const pingLimit = 10 * time.Second

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

	membership sync.Mutex // of networks

	diskOnce sync.Once
	disk     string
	diskErr  error
}

// Connect reaches the engine named by DOCKER_HOST (by default the local socket) and agrees on an
// API version with it.
func Connect(ctx context.Context) (*Engine, error) {
	docker, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("read the Docker settings (DOCKER_HOST and its kin): %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if _, err := docker.Ping(ctx); err != nil {
		return nil, fmt.Errorf("reach Docker at %s: %w", docker.DaemonHost(), err)
	}
	return &Engine{Client: docker}, nil
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

// DiskDevice is the path of the block device under Docker's root, asked of the engine once.
func (e *Engine) DiskDevice(ctx context.Context) (string, error) {
	e.diskOnce.Do(func() {
		info, err := e.Info(ctx)
		if err != nil {
			e.diskErr = fmt.Errorf("ask Docker for its root directory: %w", err)
			return
		}
		e.disk, e.diskErr = blockDeviceUnder(info.DockerRootDir, "/sys/dev/block")
	})
	return e.disk, e.diskErr
}
