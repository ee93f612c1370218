package engine

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

const removeLimit = 20 * time.Second

// runOnce runs a container until its process ends, removes it, and returns its output. An exit code
// other than 0 is an error.
func (e *Engine) runOnce(
	ctx context.Context, config *container.Config, host *container.HostConfig,
) (string, error) {
	created, err := e.ContainerCreate(ctx, config, host, nil, nil, "")
	if err != nil {
		return "", err
	}
	defer func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		_ = e.ContainerRemove(cleaning, created.ID, container.RemoveOptions{Force: true})
	}()
	exit, failed := e.ContainerWait(ctx, created.ID, container.WaitConditionNextExit)
	if err := e.ContainerStart(ctx, created.ID, container.StartOptions{}); err != nil {
		return "", err
	}
	select {
	case err := <-failed:
		return "", err
	case ended := <-exit:
		said, err := e.Printed(ctx, created.ID, "all")
		if err == nil && ended.StatusCode != 0 {
			err = fmt.Errorf("expected exit code 0 (got %d); it said: %s", ended.StatusCode, said)
		}
		return said, err
	}
}

// Printed returns the last lines of a container's output, or all.
func (e *Engine) Printed(ctx context.Context, id, lines string) (string, error) {
	stream, err := e.ContainerLogs(ctx, id, container.LogsOptions{
		ShowStdout: true, ShowStderr: true, Tail: lines,
	})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	var text bytes.Buffer
	if _, err := stdcopy.StdCopy(&text, &text, stream); err != nil {
		return "", err
	}
	return strings.TrimSpace(text.String()), nil
}
