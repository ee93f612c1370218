package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// File is a file in a machine.
type File struct {
	Content string
	Mode    int64
}

// PutFiles writes files into a container that need not run. Missing parent directories become
// 0755 (Docker alone would make them writable by everyone); those that exist are left as they are.
func (e *Engine) PutFiles(ctx context.Context, id string, files map[string]File) error {
	if len(files) == 0 {
		return nil
	}
	missing, err := e.missingParents(ctx, id, files)
	if err != nil {
		return err
	}
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, dir := range missing {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := files[name]
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     name[1:],
			Mode:     file.Mode,
			Size:     int64(len(file.Content)),
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, file.Content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return e.CopyToContainer(ctx, id, "/", &buffer, container.CopyToContainerOptions{})
}

func (e *Engine) missingParents(
	ctx context.Context,
	id string,
	files map[string]File,
) ([]string, error) {
	parents := map[string]bool{}
	for name := range files {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			parents[dir] = true
		}
	}
	var missing []string
	for _, dir := range slices.Sorted(maps.Keys(parents)) {
		under := func(parent string) bool { return strings.HasPrefix(dir, parent+"/") }
		if slices.ContainsFunc(missing, under) {
			missing = append(missing, dir)
			continue
		}
		_, err := e.ContainerStatPath(ctx, id, dir)
		if cerrdefs.IsNotFound(err) {
			missing = append(missing, dir)
		} else if err != nil {
			return nil, fmt.Errorf("look for %s: %w", dir, err)
		}
	}
	return missing, nil
}

// fileMax bounds the bytes read of a file in a container: a larger one has been replaced.
const fileMax = 16 << 20

// GetFile reads one file of a container, at most fileMax bytes of it.
func (e *Engine) GetFile(ctx context.Context, id, name string) (File, error) {
	stream, _, err := e.CopyFromContainer(ctx, id, name)
	if err != nil {
		return File{}, err
	}
	defer stream.Close()
	archive := tar.NewReader(stream)
	header, err := archive.Next()
	if errors.Is(err, io.EOF) || (err == nil && header.Typeflag != tar.TypeReg) {
		return File{}, fmt.Errorf("expected %s to be a file", name)
	}
	if err != nil {
		return File{}, err
	}
	content, err := io.ReadAll(io.LimitReader(archive, fileMax))
	return File{Content: string(content), Mode: header.Mode & 0o777}, err
}
