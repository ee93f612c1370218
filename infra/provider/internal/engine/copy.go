package engine

import (
	"context"
	"fmt"

	"github.com/docker/docker/client"
)

// CopyImage copies an image from this engine to another through both APIs and this process: it
// needs neither a registry nor a local file.
func (e *Engine) CopyImage(ctx context.Context, tag string, to *Engine) error {
	saved, err := e.ImageSave(ctx, []string{tag})
	if err != nil {
		return fmt.Errorf("save it on host %s: %w", e.Host.Name, err)
	}
	defer saved.Close()
	loaded, err := to.ImageLoad(ctx, saved, client.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("load it on host %s: %w", to.Host.Name, err)
	}
	defer loaded.Body.Close()
	if err := follow(loaded.Body); err != nil {
		return fmt.Errorf("load it on host %s: %w", to.Host.Name, err)
	}
	return to.removeReplaced(ctx, tag)
}
