package engine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDeviceNumberSplitsAsLinuxDoes(t *testing.T) {
	for dev, want := range map[uint64]string{65024: "254:0", 0x801: "8:1", 0x100000000000: "4096:0", 0x100800: "8:256"} {
		if got := deviceNumber(dev); got != want {
			t.Errorf("device %#x: expected %s, came %s", dev, want, got)
		}
	}
}

func TestPartitionIsFollowedToItsDisk(t *testing.T) {
	root := t.TempDir()
	partition := filepath.Join(root, "devices", "nvme0n1", "nvme0n1p2")
	for _, dir := range []string{partition, filepath.Join(root, "block")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(partition, "partition"), []byte("2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for number, target := range map[string]string{"259:2": partition, "259:0": filepath.Dir(partition)} {
		if err := os.Symlink(target, filepath.Join(root, "block", number)); err != nil {
			t.Fatal(err)
		}
		got, err := diskOf(number, filepath.Join(root, "block"))
		if err != nil || got != "/dev/nvme0n1" {
			t.Errorf("device %s: expected /dev/nvme0n1, came %q, %v", number, got, err)
		}
	}
}

func TestAnonymousDeviceIsRefused(t *testing.T) {
	if got, err := diskOf("0:42", t.TempDir()); err == nil {
		t.Errorf("expected an error for a device that sysfs does not list, came %q", got)
	}
}

func TestFuseIsForMachinesWhereTheHostHasIt(t *testing.T) {
	if devices := FuseDevice(filepath.Join(t.TempDir(), "fuse")); devices != nil {
		t.Errorf("no such device: expected none, came %v", devices)
	}
	if devices := FuseDevice(os.DevNull); len(devices) != 1 || devices[0].PathInContainer != os.DevNull {
		t.Errorf("expected %s, came %v", os.DevNull, devices)
	}
}
