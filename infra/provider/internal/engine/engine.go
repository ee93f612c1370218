// Package engine is the seam to Docker: the connection, and what is asked of it in more than one
// step (building an image, finding the disk, placing files). Resources say what they want;
// how an Engine of API 1.41 or later does it is known here only.
package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

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
