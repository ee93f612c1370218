package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// host is a copy of what a container sees of its host, with Docker's root on device `number`.
func host(t *testing.T, number string) (arguments []string, root string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"devices/nvme0n1/nvme0n1p2", "block", "dev"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "devices/nvme0n1/nvme0n1p2/partition"), "2\n")
	write(t, filepath.Join(root, "mountinfo"),
		"99 98 0:7 / / rw - overlay overlay rw\n100 99 "+number+" /var/lib /root ro,relatime - ext4 /dev/x rw\n")
	return []string{
		"-c", hardwareScript, "sh",
		filepath.Join(root, "mountinfo"), filepath.Join(root, "block"), "/root", filepath.Join(root, "dev"),
	}, root
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, arguments []string) Hardware {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "sh", arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return parseHardware(string(said))
}

func TestPartitionIsFollowedToItsDisk(t *testing.T) {
	for number, target := range map[string]string{"259:2": "nvme0n1/nvme0n1p2", "259:0": "nvme0n1"} {
		arguments, root := host(t, number)
		link := filepath.Join(root, "block", number)
		if err := os.Symlink(filepath.Join(root, "devices", target), link); err != nil {
			t.Fatal(err)
		}
		if found := look(t, arguments); found.Disk != "/dev/nvme0n1" || found.NoDisk != nil {
			t.Errorf("device %s: expected /dev/nvme0n1, got %+v", number, found)
		}
	}
}

func TestAnonymousDeviceIsNoDisk(t *testing.T) {
	arguments, _ := host(t, "0:42")
	if found := look(t, arguments); found.Disk != "" || found.NoDisk == nil {
		t.Errorf("expected an error for a device that sysfs does not list, got %+v", found)
	}
}

func TestRootThatNoMountShowsIsNoDisk(t *testing.T) {
	if found := parseHardware(""); found.NoDisk == nil || found.Fuse {
		t.Errorf("expected neither disk nor FUSE, got %+v", found)
	}
}

func TestFuseIsForMachinesWhereTheHostHasIt(t *testing.T) {
	arguments, root := host(t, "0:42")
	if look(t, arguments).Fuse {
		t.Error("no such device: expected no FUSE")
	}
	write(t, filepath.Join(root, "dev", "fuse"), "")
	if !look(t, arguments).Fuse {
		t.Error("expected FUSE where the host has the device")
	}
}
