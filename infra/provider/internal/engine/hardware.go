package engine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// FusePath is the device by which a process serves a file system (FUSE).
const FusePath = "/dev/fuse"

const (
	rootSeen    = "/sparecraft-host/root"
	devicesSeen = "/sparecraft-host/dev"
)

//go:embed hardware.sh
var hardwareScript string

// Hardware is the part of a host that machines get.
type Hardware struct {
	// Disk is the path of the block device under Docker's root.
	Disk string
	// NoDisk is the reason for having no disk to throttle.
	NoDisk error
	// Fuse is true if the host has FusePath. Without it a machine's agent cannot inject some faults.
	Fuse bool
}

// Hardware inspects the engine's host, once: from a container, as the host may be another machine.
// The image needs a shell.
func (e *Engine) Hardware(ctx context.Context, image, experiment string) (Hardware, error) {
	e.probe.Lock()
	defer e.probe.Unlock()
	if e.hardware != nil {
		return *e.hardware, nil
	}
	info, err := e.Info(ctx)
	if err != nil {
		return Hardware{}, fmt.Errorf("ask Docker for its root directory: %w", err)
	}
	said, err := e.runOnce(ctx, &container.Config{
		Image:      image,
		Labels:     map[string]string{LabelExperiment: experiment},
		Entrypoint: []string{"sh", "-c", hardwareScript, "sh"},
		Cmd:        []string{"/proc/self/mountinfo", "/sys/dev/block", rootSeen, devicesSeen},
	}, &container.HostConfig{
		NetworkMode: "none",
		Mounts:      []mount.Mount{seen(info.DockerRootDir, rootSeen), seen("/dev", devicesSeen)},
	})
	if err != nil {
		return Hardware{}, fmt.Errorf("look at the host from a container of %s: %w", image, err)
	}
	found := parseHardware(said)
	e.hardware = &found
	return found, nil
}

func seen(source, target string) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: true}
}

func parseHardware(said string) Hardware {
	found := Hardware{NoDisk: errors.New("Docker's root directory is on no file system that a container sees")}
	for line := range strings.Lines(said) {
		switch what, value, _ := strings.Cut(strings.TrimSpace(line), " "); what {
		case "disk":
			found.Disk, found.NoDisk = value, nil
		case "device":
			found.NoDisk = fmt.Errorf(
				"device %s is no block device (a file system such as btrfs, zfs or tmpfs?)", value)
		case "fuse":
			found.Fuse = true
		}
	}
	return found
}

// FuseDevice lets a machine use the host's FUSE.
func FuseDevice() []container.DeviceMapping {
	return []container.DeviceMapping{
		{PathOnHost: FusePath, PathInContainer: FusePath, CgroupPermissions: "rw"},
	}
}
