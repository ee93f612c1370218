package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"sparecraft/infra/provider/internal/buildcontext"
)

const buildLogLines = 30

// BuildRequest is one image to build.
type BuildRequest struct {
	Tag        string
	Dockerfile string
	Target     string // the stage that is wanted; empty: the last
	BuildArgs  map[string]string
}

// Build makes an image from a context and labels it with the context's hash. The classic builder is
// asked for, as every engine has it; it uses the host's network so that package installation works
// where containers have no way out. On failure the error ends with the last lines of output.
func (e *Engine) Build(
	ctx context.Context,
	request BuildRequest,
	files *buildcontext.Context,
) error {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(files.WriteTar(writer)) }()
	defer reader.Close()
	arguments := map[string]*string{}
	for name, value := range request.BuildArgs {
		arguments[name] = &value
	}
	response, err := e.ImageBuild(ctx, reader, build.ImageBuildOptions{
		Version:     build.BuilderV1,
		Tags:        []string{request.Tag},
		Dockerfile:  request.Dockerfile,
		Target:      request.Target,
		BuildArgs:   arguments,
		Labels:      map[string]string{LabelHash: files.Hash, LabelTag: request.Tag},
		NetworkMode: "host",
		Remove:      true,
		ForceRemove: true,
	})
	if err != nil {
		return fmt.Errorf("start the build: %w", err)
	}
	defer response.Body.Close()
	if err := follow(response.Body); err != nil {
		return err
	}
	return e.removeReplaced(ctx, request.Tag)
}

type progress struct {
	Stream string `json:"stream"`
	Error  string `json:"error"`
}

func follow(body io.Reader) error {
	var lines []string
	decoder := json.NewDecoder(body)
	for {
		var message progress
		err := decoder.Decode(&message)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read its output: %w", err)
		}
		if line := strings.TrimRight(message.Stream, "\r\n "); line != "" {
			lines = append(lines, line)
			lines = lines[max(0, len(lines)-buildLogLines):]
		}
		if message.Error != "" {
			return fmt.Errorf(
				"%s\nThe last lines of its output:\n%s",
				message.Error,
				strings.Join(lines, "\n"),
			)
		}
	}
}

// removeReplaced removes images that lost this tag to a newer build and that no container uses.
func (e *Engine) removeReplaced(ctx context.Context, tag string) error {
	old, err := e.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(
		filters.Arg("dangling", "true"), filters.Arg("label", LabelTag+"="+tag))})
	if err != nil {
		return fmt.Errorf("list the images that %s replaced: %w", tag, err)
	}
	for _, replaced := range old {
		// A refusal means that a container still uses it; the next build tries again.
		_, _ = e.ImageRemove(ctx, replaced.ID, image.RemoveOptions{PruneChildren: true})
	}
	return nil
}

// Pull pulls an image from its registry.
func (e *Engine) Pull(ctx context.Context, name string) error {
	body, err := e.ImagePull(ctx, name, image.PullOptions{})
	if err != nil {
		return err
	}
	defer body.Close()
	return follow(body)
}
