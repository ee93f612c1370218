package provider

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"sparecraft/infra/provider/internal/engine"
)

const (
	lastLogLines  = "20"
	removalPoll   = 100 * time.Millisecond
	removalChecks = 200
)

// machines are those of one engine.
type machines struct {
	engine *engine.Engine
	settle time.Duration
}

// start starts a machine, or thaws a frozen one, and refuses one whose process 1 ends within
// that time: what it said then is in the diagnostic and not in the log of a removed container.
func (r machines) start(
	ctx context.Context,
	plan machineModel,
	id string,
) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	found, err := r.engine.ContainerInspect(ctx, id)
	if err == nil && found.State.Paused {
		err = r.engine.ContainerUnpause(ctx, id)
	} else if err == nil {
		err = r.engine.Start(ctx, id)
	}
	if err != nil {
		diagnostics.Append(r.explain(ctx, plan, "start", err))
		return diagnostics
	}
	if code, ended := r.endsSoon(ctx, id); ended {
		diagnostics.Append(problem{
			summary:  "Machine " + plan.Name.ValueString() + " ended as soon as it started",
			expected: "its process 1 to keep running",
			got:      fmt.Sprintf("exit code %d; its last output:\n%s", code, r.lastLog(ctx, id)),
			hint:     "correct the image " + plan.Image.ValueString() + " or its files and apply again",
		}.diagnostic())
	}
	return diagnostics
}

func (r machines) endsSoon(ctx context.Context, id string) (code int64, ended bool) {
	ctx, cancel := context.WithTimeout(ctx, r.settle)
	defer cancel()
	exit, failed := r.engine.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case result := <-exit:
		return result.StatusCode, true
	case <-failed: // still running when the time was up
		return 0, false
	}
}

func (r machines) lastLog(ctx context.Context, id string) string {
	said, err := r.engine.Printed(ctx, id, lastLogLines)
	if err != nil {
		return "unknown (" + err.Error() + ")"
	}
	return said
}

// stop asks process 1 to end (SIGTERM), and kills it after stopLimitS.
func (r machines) stop(ctx context.Context, id string) error {
	limitS := stopLimitS
	return r.engine.ContainerStop(ctx, id, container.StopOptions{Timeout: &limitS})
}

// remove removes a container, running or not, and returns once it is gone.
func (r machines) remove(ctx context.Context, id string) error {
	err := r.engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || cerrdefs.IsNotFound(err) {
		return nil
	}
	if !cerrdefs.IsConflict(err) {
		return err
	}
	for range removalChecks { // someone else removes it right now
		if _, err := r.engine.ContainerInspect(ctx, id); cerrdefs.IsNotFound(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(removalPoll):
		}
	}
	return err
}

// boundPort matches the engine's messages about a host port that it could not bind.
var boundPort = regexp.MustCompile(`(?:Bind for|listen tcp4?) [0-9.]+:([0-9]+)(?: failed)?: `)

// explain turns the engine's error about a machine into expected, got and hint.
func (r machines) explain(
	ctx context.Context,
	plan machineModel,
	doing string,
	err error,
) diag.Diagnostic {
	machine, text := plan.Name.ValueString(), err.Error()
	if taken := boundPort.FindStringSubmatch(text); taken != nil {
		return diag.WithPath(path.Root("published_ports"), problem{
			summary:  fmt.Sprintf("Port %s on %s is taken", taken[1], loopback),
			expected: fmt.Sprintf("the port to be free, to publish machine %s on it", machine),
			got:      text,
			hint: fmt.Sprintf(
				"end what listens there (`ss -ltnp sport = :%s`, `docker ps`), or choose another port",
				taken[1],
			),
		}.diagnostic())
	}
	switch {
	case strings.Contains(text, "Address already in use"):
		return problem{
			summary: "An address of machine " + machine + " is taken",
			expected: fmt.Sprintf(
				"%s and %s to be free",
				plan.Data.Address.ValueString(),
				plan.Control.Address.ValueString(),
			),
			got: text,
			hint: "`docker network inspect NETWORK` names the container that has it; remove that, " +
				"or choose another",
		}.diagnostic()
	case doing == "create" && cerrdefs.IsConflict(err):
		name := plan.containerName()
		return problem{
			summary:  "Container " + name + " exists already",
			expected: "no container of this name, as it is not in Terraform's state",
			got:      text,
			hint: "`docker rm -f " + name + "` (or `terraform import ADDRESS " + name +
				"`), then apply again",
		}.diagnostic()
	case doing == "create" && cerrdefs.IsNotFound(err):
		return imageMissing(path.Root("image"), plan.Image.ValueString(), err)
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		return problem{
			summary:  fmt.Sprintf("Docker took too long to %s machine %s", doing, machine),
			expected: "an answer within the time of `timeouts`",
			got:      text,
			hint: "look whether the host is overloaded (`docker stats`, `uptime`), or give it more time " +
				"(`timeouts`), then apply again",
		}.diagnostic()
	}
	return unexpected(doing+" machine "+machine, err)
}
