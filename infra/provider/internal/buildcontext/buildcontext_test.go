package buildcontext

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func example(t *testing.T) Spec {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Dockerfile"), "FROM scratch\n", 0o644)
	write(t, filepath.Join(dir, "start.sh"), "#!/bin/sh\n", 0o755)
	agent := write(t, filepath.Join(t.TempDir(), "nodeagent"), "ELF", 0o755)
	return Spec{Dir: dir, Dockerfile: "Dockerfile", Files: map[string]string{"bin/nodeagent": agent}}
}

func hashOf(t *testing.T, spec Spec) string {
	t.Helper()
	context, err := Load(spec)
	if err != nil {
		t.Fatal(err)
	}
	return context.Hash
}

func TestHashChangesWithWhateverDecidesTheImage(t *testing.T) {
	changes := map[string]func(t *testing.T, spec *Spec){
		"a file's content": func(t *testing.T, spec *Spec) {
			write(t, filepath.Join(spec.Dir, "start.sh"), "#!/bin/sh\nexit 1\n", 0o755)
		},
		"an executable bit": func(t *testing.T, spec *Spec) {
			write(t, filepath.Join(spec.Dir, "start.sh"), "#!/bin/sh\n", 0o644)
		},
		"a new file":          func(t *testing.T, spec *Spec) { write(t, filepath.Join(spec.Dir, "x"), "", 0o644) },
		"an injected file":    func(t *testing.T, spec *Spec) { write(t, spec.Files["bin/nodeagent"], "ELF2", 0o755) },
		"a build argument":    func(_ *testing.T, spec *Spec) { spec.BuildArgs = map[string]string{"PAGES": "2000"} },
		"the base image":      func(_ *testing.T, spec *Spec) { spec.BaseID = "sha256:1" },
		"a link's target":     func(t *testing.T, spec *Spec) { link(t, spec.Dir, "start.sh") },
		"the place of a file": func(_ *testing.T, spec *Spec) { spec.Files = map[string]string{"bin/x": spec.Files["bin/nodeagent"]} },
	}
	for name, change := range changes {
		spec := example(t)
		link(t, spec.Dir, "Dockerfile")
		before := hashOf(t, spec)
		change(t, &spec)
		if hashOf(t, spec) == before {
			t.Errorf("%s changed, the hash did not", name)
		}
	}
}

func link(t *testing.T, dir, target string) {
	t.Helper()
	name := filepath.Join(dir, "link")
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestHashIgnoresPlaceTimesUmaskAndIgnoredFiles(t *testing.T) {
	one, two := example(t), example(t)
	for _, spec := range []Spec{one, two} {
		write(t, filepath.Join(spec.Dir, ".dockerignore"), "*.tmp\n", 0o644)
	}
	write(t, filepath.Join(two.Dir, "Dockerfile"), "FROM scratch\n", 0o600)
	write(t, filepath.Join(two.Dir, "scratch.tmp"), "noise", 0o644)
	past := time.Unix(1, 0)
	if err := os.Chtimes(filepath.Join(two.Dir, "start.sh"), past, past); err != nil {
		t.Fatal(err)
	}
	if hashOf(t, one) != hashOf(t, two) {
		t.Error("expected the same hash for the same content")
	}
}

func TestIgnoredPatternsComeBeforeTheDirectorysOwn(t *testing.T) {
	spec := example(t)
	write(t, filepath.Join(spec.Dir, ".dockerignore"), "!kept.py\n", 0o644)
	spec.Ignore = []string{"**/*.py", "**/*.pyc"}
	before := hashOf(t, spec)
	write(t, filepath.Join(spec.Dir, "workload.py"), "1", 0o644)
	write(t, filepath.Join(spec.Dir, "__pycache__", "workload.pyc"), "1", 0o644)
	if hashOf(t, spec) != before {
		t.Error("expected ignored files not to count")
	}
	write(t, filepath.Join(spec.Dir, "kept.py"), "1", 0o644)
	if hashOf(t, spec) == before {
		t.Error("expected the directory's own .dockerignore to take a file back")
	}
}

func TestTarHoldsEveryFileOnceWithItsMode(t *testing.T) {
	context, err := Load(example(t))
	if err != nil {
		t.Fatal(err)
	}
	var buffer bytes.Buffer
	if err := context.WriteTar(&buffer); err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	archive := tar.NewReader(&buffer)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
	}
	want := map[string]int64{"Dockerfile": 0o644, "start.sh": 0o755, "bin/nodeagent": 0o755}
	if len(modes) != len(want) {
		t.Fatalf("expected %v, got %v", want, modes)
	}
	for name, mode := range want {
		if modes[name] != mode {
			t.Errorf("%s: expected mode %o, got %o", name, mode, modes[name])
		}
	}
}

func TestMissingPartsAreNamed(t *testing.T) {
	noDockerfile, noFile, noDir := example(t), example(t), example(t)
	noDockerfile.Dockerfile = "Other"
	noFile.Files["bin/nodeagent"] = "/dev/null/nodeagent"
	noDir.Dir = "/dev/null/context"
	for _, spec := range []Spec{noDockerfile, noFile, noDir} {
		if _, err := Load(spec); err == nil {
			t.Errorf("expected an error for %+v", spec)
		}
	}
}

func TestPathsThatLeaveTheContextAreRefused(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../x", "a/../../x", "/etc/passwd"} {
		if CheckPath(name) == nil {
			t.Errorf("expected %q to be refused", name)
		}
	}
	if err := CheckPath("bin/nodeagent"); err != nil {
		t.Error(err)
	}
}
