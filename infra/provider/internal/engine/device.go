package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/docker/docker/api/types/container"
)

// FusePath is the device by which a process serves a file system (FUSE).
const FusePath = "/dev/fuse"

// FuseDevice lets a machine use the device at path, if this host has it: without it the machine's
// agent says that it cannot inject the faults that need one.
func FuseDevice(path string) []container.DeviceMapping {
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	return []container.DeviceMapping{
		{PathOnHost: path, PathInContainer: path, CgroupPermissions: "rw"},
	}
}

// blockDeviceUnder finds the whole disk that holds dir. The kernel throttles whole disks only, so
// a partition is followed to its parent. sysBlock is /sys/dev/block, or a copy of it in a test.
func blockDeviceUnder(dir, sysBlock string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("look at Docker's root directory from here: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("no device number for %s on this system", dir)
	}
	return diskOf(deviceNumber(stat.Dev), sysBlock)
}

// deviceNumber is Linux's MAJOR:MINOR (glibc's gnu_dev_major and gnu_dev_minor).
func deviceNumber(dev uint64) string {
	major := (dev&0x00000000000fff00)>>8 | (dev&0xfffff00000000000)>>32
	minor := dev&0x00000000000000ff | (dev&0x00000ffffff00000)>>12
	return fmt.Sprintf("%d:%d", major, minor)
}

func diskOf(number, sysBlock string) (string, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(sysBlock, number))
	if err != nil {
		return "", fmt.Errorf(
			"device %s is no block device (a file system such as btrfs, zfs or tmpfs?): %w",
			number,
			err,
		)
	}
	if _, err := os.Stat(filepath.Join(path, "partition")); err == nil {
		path = filepath.Dir(path)
	}
	return "/dev/" + filepath.Base(path), nil
}
