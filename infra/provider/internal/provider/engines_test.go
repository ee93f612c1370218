package provider

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sparecraft/infra/provider/internal/engine"
)

// Two more engines on this machine, each in a network namespace of its own, with a cable between the
// two and nothing else: what two hosts are to each other. Names are fixed, so that a run removes what an
// earlier one left when it was killed.
const (
	enginesDir    = "/tmp/sparecraft-tst-hosts"
	engineNames   = "sc-tst-host-" // of namespaces and cgroups
	cable         = "sctst0"
	engineUpLimit = 60 * time.Second
	engineEnd     = 90 * time.Second
)

// underlays is each engine's host and its address on the cable.
var underlays = map[string]string{"a": "192.0.2.1", "b": "192.0.2.2"}

// ownEngine is one of them.
type ownEngine struct {
	*engine.Engine
	name, dir string
	process   *exec.Cmd
}

func twoEngines(t *testing.T) map[string]*ownEngine {
	t.Helper()
	own := docker(t)
	removeEngines(t)
	t.Cleanup(func() {
		removeEngines(t)
		if left := leftOf(); len(left) > 0 {
			t.Errorf("expected nothing of the two hosts to be left, got %s", strings.Join(left, ", "))
		}
	})
	sh(t, "ip", "netns", "add", engineNames+"a")
	sh(t, "ip", "netns", "add", engineNames+"b")
	sh(t, "ip", "link", "add", cable, "netns", engineNames+"a", "type", "veth", "peer", "name", cable, "netns", engineNames+"b")
	engines := map[string]*ownEngine{}
	for name, address := range underlays {
		namespace := engineNames + name
		sh(t, "ip", "-n", namespace, "address", "add", address+"/30", "dev", cable)
		sh(t, "ip", "-n", namespace, "link", "set", cable, "up")
		sh(t, "ip", "-n", namespace, "link", "set", "lo", "up")
		engines[name] = startEngine(t, name)
	}
	if err := own.CopyImage(t.Context(), baseImage, engines["a"].Engine); err != nil {
		t.Fatal(err)
	}
	return engines
}

func startEngine(t *testing.T, name string) *ownEngine {
	t.Helper()
	dir, namespace := filepath.Join(enginesDir, name), engineNames+name
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// `ip netns exec` would mount another /sys, without the cgroups.
	started := exec.Command("nsenter", "--net=/run/netns/"+namespace, "dockerd",
		"--host", "unix://"+filepath.Join(dir, "docker.sock"), "--data-root", filepath.Join(dir, "data"),
		"--exec-root", filepath.Join(dir, "run"), "--pidfile", filepath.Join(dir, "pid"),
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", "/"+namespace, "--bridge", "none",
		"--containerd-namespace", namespace, "--containerd-plugins-namespace", namespace+"-plugins")
	started.Stdout, started.Stderr = log, log
	if err := started.Start(); err != nil {
		t.Fatal(err)
	}
	own := &ownEngine{name: name, dir: dir, process: started}
	t.Cleanup(func() { own.end(t) })
	own.Engine = own.untilUp(t)
	return own
}

func (o *ownEngine) socket() string { return filepath.Join(o.dir, "docker.sock") }

func (o *ownEngine) untilUp(t *testing.T) *engine.Engine {
	t.Helper()
	deadline := time.Now().Add(engineUpLimit)
	for {
		connected, err := engine.Connect(t.Context(), engine.Host{Name: o.name, Address: "unix://" + o.socket()})
		if err == nil {
			return connected
		}
		if time.Now().After(deadline) || syscall.Kill(o.process.Process.Pid, 0) != nil {
			said, _ := os.ReadFile(filepath.Join(o.dir, "log"))
			t.Fatalf("dockerd of host %s: expected an answer, got %v; its log:\n%s", o.name, err, said)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// end asks the engine to end, and kills it after engineEnd.
func (o *ownEngine) end(t *testing.T) {
	_ = o.process.Process.Signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- o.process.Wait() }()
	select {
	case <-ended:
	case <-time.After(engineEnd):
		t.Errorf("dockerd of host %s: expected to end within %s of SIGTERM", o.name, engineEnd)
		_ = o.process.Process.Kill()
		<-ended
	}
}

// removeEngines removes processes, mounts, files, cgroups and namespaces, whoever left them.
func removeEngines(t *testing.T) {
	t.Helper()
	for name := range underlays {
		for _, file := range []string{"pid", "run/containerd/containerd.pid"} {
			endLeft(filepath.Join(enginesDir, name, file))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, enginesDir+"/") {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	}
	if err := os.RemoveAll(enginesDir); err != nil {
		t.Error(err)
	}
	removeCgroups()
	for name := range underlays {
		_ = exec.Command("ip", "netns", "delete", engineNames+name).Run() // there may be none
	}
}

// endLeft kills the process of a pid file if it is still what wrote it.
func endLeft(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && strings.Contains(string(command), enginesDir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func removeCgroups() {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		for name := range underlays {
			inner, _ := filepath.Glob(pattern + engineNames + name + "/*/")
			outer, _ := filepath.Glob(pattern + engineNames + name)
			for _, dir := range append(inner, outer...) {
				_ = syscall.Rmdir(dir) // what still has a process stays, and leftOf tells
			}
		}
	}
}

// leftOf is what of the engines' hosts there still is.
func leftOf() []string {
	var left []string
	for _, pattern := range []string{
		enginesDir, "/run/netns/" + engineNames + "*", "/sys/fs/cgroup/" + engineNames + "*",
		"/sys/fs/cgroup/*/" + engineNames + "*", "/sys/class/net/" + cable, "/sys/class/net/vx-*",
	} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	return left
}

func sh(t *testing.T, words ...string) string {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, said)
	}
	return string(said)
}
