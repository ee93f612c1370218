package provider

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestStatesAndTheirBackupsAreTheirOwnersOnly(t *testing.T) {
	folder := t.TempDir()
	workspace := filepath.Join("terraform.tfstate.d", "shop")
	if err := os.MkdirAll(filepath.Join(folder, workspace), 0o755); err != nil {
		t.Fatal(err)
	}
	states := []string{stateName, filepath.Join(workspace, stateName)}
	others := []string{stateName + ".1764340000.backup", "errored.tfstate"}
	for _, name := range append(others, states...) {
		readable(t, filepath.Join(folder, name), "keys")
	}
	readable(t, filepath.Join(folder, "main.tf"), "no keys")
	if problems := protectStates(folder); len(problems) > 0 {
		t.Errorf("expected no diagnostics, got %v", problems)
	}
	for _, name := range append(others, states...) {
		expectMode(t, filepath.Join(folder, name), 0o600)
	}
	for _, name := range states {
		expectMode(t, filepath.Join(folder, name+".backup"), 0o600)
	}
	expectMode(t, filepath.Join(folder, "main.tf"), 0o644)
}

func TestAStateThatIsNotWrittenYetGetsNoBackup(t *testing.T) {
	state := filepath.Join(t.TempDir(), stateName)
	readable(t, state, "")
	if problems := protectStates(filepath.Dir(state)); len(problems) > 0 {
		t.Errorf("expected no diagnostics, got %v", problems)
	}
	expectMode(t, state, 0o600)
	if _, err := os.Stat(state + ".backup"); err == nil {
		t.Error("expected no backup")
	}
}

func TestAStateThatIsNoFileIsLeftAlone(t *testing.T) {
	folder := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(folder, stateName)); err != nil {
		t.Fatal(err)
	}
	if problems := protectStates(folder); len(problems) > 0 {
		t.Errorf("expected no diagnostics, got %v", problems)
	}
}

// TestAccStates_APlainApplyLeavesNoKeyThatOthersCanRead has Terraform start the provider as a user
// does: the harness of the other tests runs it in a process whose folder is not Terraform's.
func TestAccStates_APlainApplyLeavesNoKeyThatOthersCanRead(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("TF_ACC is not set")
	}
	folder, program := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(program, "terraform-provider-fleet"), "../..")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	settings := filepath.Join(program, "terraformrc")
	readable(t, settings, "provider_installation {\n  dev_overrides {\n"+
		"    \"sparecraft/fleet\" = \""+program+"\"\n  }\n  direct {}\n}\n")
	state := filepath.Join(folder, stateName)
	terraform := func(servers string, words ...string) {
		t.Helper()
		readable(t, filepath.Join(folder, "main.tf"), `
terraform {
  required_providers {
    fleet = { source = "sparecraft/fleet" }
  }
}
provider "fleet" {
  docker = false
}
`+identityConfig(servers))
		script := `umask 022 && exec "$0" "$@"`
		command := exec.Command("sh", append([]string{"-c", script, os.Getenv("TF_ACC_TERRAFORM_PATH")}, words...)...)
		command.Dir = folder
		command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_WORKSPACE=", "CHECKPOINT_DISABLE=1")
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("terraform %v: %v: %s", words, err, said)
		}
	}
	terraform(`{ web-1 = ["198.19.0.11"] }`, "apply", "-auto-approve", "-input=false", "-no-color")
	expectMode(t, state, 0o600)
	terraform(`{ web-1 = ["198.19.0.11"], web-2 = ["198.19.0.12"] }`,
		"apply", "-auto-approve", "-input=false", "-no-color")
	for _, file := range []string{state, state + ".backup"} {
		expectMode(t, file, 0o600)
		if !holdsKeys(t, file) {
			t.Errorf("expected keys in %s, else this shows nothing", file)
		}
	}
	terraform(`{ web-1 = ["198.19.0.11"] }`, "destroy", "-auto-approve", "-input=false", "-no-color")
	expectMode(t, state, 0o600)
	expectMode(t, state+".backup", 0o600)
}

// readable makes a file that everybody may read, whatever the umask.
func readable(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
}

func expectMode(t *testing.T, file string, mode os.FileMode) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Error(err)
	} else if info.Mode().Perm() != mode {
		t.Errorf("expected mode %o of %s, got %o", mode, file, info.Mode().Perm())
	}
}

func holdsKeys(t *testing.T, file string) bool {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(content, []byte("PRIVATE KEY"))
}
