package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"sparecraft/infra/provider/internal/sparecraft"
)

const runAddr = "fleet_run.one"

// runStub is a `sparecraft` that says that a run was made: each call is a line of the file calls beside it.
// $verdict is what the run's SLO is said to be.
func runStub(t *testing.T, more string) string {
	t.Helper()
	folder := t.TempDir()
	script := `#!/bin/sh
echo "$@" >> "` + folder + `/calls"
verdict=met met=true
` + more + `
run=20260101T0000$(printf %02d $(wc -l < "` + folder + `/calls"))Z
mkdir -p "$5/demo/$run"; touch "$5/demo/$run/report.html"
cat <<END
{"kind": "compare", "experiment": "demo", "run": "$run", "valid": true, "disturbed": null,
 "verdicts": {"cleanup": {"ok": true, "reasons": []}},
 "slo": {"arm": "baseline", "met": $met, "verdict": "$verdict", "reasons": ["p95 of 700 ms"]},
 "compare": {"arms": {"baseline": {"p95_ms": 12.5}}, "plan": {"feasible": true, "usd_per_month": 61.5, "tiers": {"web": {"nodes": 2}}}}}
END
[ $met = true ]
`
	file := filepath.Join(folder, "sparecraft")
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return file
}

func calls(t *testing.T, stub string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(stub), "calls")) //nolint:gosec // a test's
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// runConfig is a run with further attributes; it needs no engine.
func runConfig(stub, results, more string) string {
	return fmt.Sprintf(`
provider "fleet" {
  docker = false
}
resource "fleet_run" "one" {
  design  = "demo"
  command = %q
  results = %q
  %s
}
`, stub, results, more)
}

func runAcceptance(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: factories(time.Now, Settle), Steps: steps})
}

func TestAccRun_findsWhatTheRunSays(t *testing.T) {
	results, stub := t.TempDir(), runStub(t, "")
	folder := filepath.Join(results, "demo", "20260101T000001Z")
	runAcceptance(t, resource.TestStep{
		Config: runConfig(stub, results, ""),
		Check: resource.ComposeAggregateTestCheckFunc(
			resource.TestCheckResourceAttr(runAddr, "verdict", "met"),
			resource.TestCheckResourceAttr(runAddr, "valid", "true"),
			resource.TestCheckResourceAttr(runAddr, "slo_met", "true"),
			resource.TestCheckResourceAttr(runAddr, "p95_ms", "12.5"),
			resource.TestCheckResourceAttr(runAddr, "usd_per_month", "61.5"),
			resource.TestCheckResourceAttr(runAddr, "folder", folder),
			resource.TestCheckResourceAttr(runAddr, "report", filepath.Join(folder, "report.html")),
			resource.TestCheckResourceAttr(runAddr, "plan", `{"feasible":true,"tiers":{"web":{"nodes":2}},"usd_per_month":61.5}`),
		),
	})
	if !fileExists(filepath.Join(folder, "report.html")) {
		t.Error("expected destroy to leave the results")
	}
}

func TestAccRun_runsAgainForWhatIsMeasuredOnly(t *testing.T) {
	results, stub := t.TempDir(), runStub(t, "")
	again := func(more string, action plancheck.ResourceActionType) resource.TestStep {
		return resource.TestStep{Config: runConfig(stub, results, more), ConfigPlanChecks: expect(runAddr, action)}
	}
	runAcceptance(t,
		again(`triggers = { day = "1" }`, plancheck.ResourceActionCreate),
		again(`triggers = { day = "1" }`, plancheck.ResourceActionNoop),
		again(`triggers = { day = "2" }`, plancheck.ResourceActionReplace),
		again("triggers = { day = \"2\" }\n fail_on_slo = true\n quiet_wait_s = 60", plancheck.ResourceActionUpdate),
		again("triggers = { day = \"2\" }\n seed = 3\n quiet_wait_s = 60", plancheck.ResourceActionReplace),
	)
	if found := calls(t, stub); len(found) != 3 || !strings.HasSuffix(found[2], "--seed 3 --quiet-wait 60") {
		t.Errorf("expected three runs, the last of them with its seed and wait, got %q", found)
	}
}

func TestAccRun_newKeysOfAFleetRunNothingAgain(t *testing.T) {
	results, stub := t.TempDir(), runStub(t, "")
	with := func(fleet, identity string) string {
		return runConfig(stub, results, fmt.Sprintf("fleet = %q\n identity = %q", fleet, identity))
	}
	step := func(config string, action plancheck.ResourceActionType) resource.TestStep {
		return resource.TestStep{Config: config, ConfigPlanChecks: expect(runAddr, action)}
	}
	runAcceptance(t,
		resource.TestStep{Config: runConfig(stub, results, `fleet = "{}"`), ExpectError: says("identity")},
		step(with("{}", "{}"), plancheck.ResourceActionCreate),
		step(with("{}", "[]"), plancheck.ResourceActionUpdate),
		step(with("[]", "[]"), plancheck.ResourceActionReplace),
	)
}

func TestAccRun_runsAgainWhenTheDesignChanges(t *testing.T) {
	results, stub, design := t.TempDir(), runStub(t, ""), t.TempDir()
	write := func(text string) func() {
		return func() {
			if err := os.WriteFile(filepath.Join(design, "fleet.tfvars"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	config := strings.Replace(runConfig(stub, results, ""), `"demo"`, fmt.Sprintf("%q", design), 1)
	runAcceptance(t,
		resource.TestStep{PreConfig: write("one"), Config: config},
		resource.TestStep{Config: config, ConfigPlanChecks: expect(runAddr, plancheck.ResourceActionNoop)},
		resource.TestStep{
			PreConfig: write("another"), Config: config,
			ConfigPlanChecks: expect(runAddr, plancheck.ResourceActionReplace),
		},
	)
}

func TestAccRun_missedSLOFailsTheApplyOnlyWhereItIsAsked(t *testing.T) {
	results, stub := t.TempDir(), runStub(t, "verdict=missed met=false")
	runAcceptance(t,
		resource.TestStep{
			Config: runConfig(stub, results, ""),
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr(runAddr, "verdict", "missed"),
				resource.TestCheckResourceAttr(runAddr, "slo_met", "false"),
			),
		},
		resource.TestStep{
			Config:      runConfig(stub, results, "fail_on_slo = true"),
			ExpectError: says("did not keep its SLO"),
		},
		resource.TestStep{
			Config:      runConfig(stub, results, "fail_on_slo = true\n seed = 2"),
			ExpectError: says("p95 of 700 ms"),
		},
	)
}

func TestRun_aRunThatLeftSomethingFailsAndItsSLOIsNotCalledMissed(t *testing.T) {
	for _, met := range []*bool{nil, new(true)} {
		found := judged(&sparecraft.Result{Valid: true, Met: met, Left: []string{"web-1 stays"}}, false)
		if len(found) != 1 || found[0].Severity() != diag.SeverityError {
			t.Errorf("expected one error about what was left, got %v", found)
		}
	}
}

func TestAccRun_secondAtOnceIsRefusedWithWhoGoesOn(t *testing.T) {
	refusal := `echo '{"error": {"place": "this host", "expected": "no other run", "got": "the active run of shop (process 7)", "hint": "Wait for it."}}'; exit 3`
	runAcceptance(t, resource.TestStep{
		Config:      runConfig(runStub(t, refusal), t.TempDir(), ""),
		ExpectError: says("the active run of shop (process 7)"),
	})
}

func TestAccRun_questionOfTheCommandStaysOne(t *testing.T) {
	refusal := `echo '{"error": {"place": "design demoo", "expected": "a name", "got": "none", "hint": "Did you mean demo?"}}'; exit 2`
	runAcceptance(t, resource.TestStep{
		Config:      runConfig(runStub(t, refusal), t.TempDir(), ""),
		ExpectError: regexp.MustCompile(`Hint: Did you mean demo\?(\n|$)`),
	})
}

func TestAccRun_runsOfOneConfigurationTakeTurns(t *testing.T) {
	results := t.TempDir()
	stub := runStub(t, `mkdir "`+results+`/turn" || exit 9
sleep 0.2
rmdir "`+results+`/turn"`)
	two := runConfig(stub, results, "") + strings.NewReplacer(`"one"`, `"two"`, `provider "fleet" {`, "", "docker = false\n}", "").
		Replace(runConfig(stub, results, ""))
	runAcceptance(t, resource.TestStep{Config: two})
	if found := calls(t, stub); len(found) != 2 {
		t.Errorf("expected two runs, got %q", found)
	}
}

// TestAccRun_interruptedApplyLeavesNothingAndSaysSo interrupts a Terraform of its own, with a provider that is
// a program as it is for a user.
func TestAccRun_interruptedApplyLeavesNothingAndSaysSo(t *testing.T) {
	long(t)
	if os.Getenv("TF_ACC") == "" {
		t.Skip("acceptance tests need TF_ACC=1")
	}
	folder := t.TempDir()
	held := filepath.Join(folder, "held")
	stub := runStub(t, `[ -e "`+folder+`/second" ] || {
trap 'rm "`+held+`"; echo "{\"error\": {\"got\": \"an interrupt\"}}"; exit 130' TERM
touch "`+held+`"; while :; do sleep 0.05; done; }`)
	terraform := ownTerraform(t, folder, runConfig(stub, folder, ""))

	apply := terraform("apply", "-auto-approve", "-no-color")
	if err := apply.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !fileExists(held); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("expected the run to begin")
		}
	}
	// A terminal tells the whole group.
	if err := syscall.Kill(-apply.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := apply.Wait(); err == nil {
		t.Error("expected the apply to fail")
	}
	if fileExists(held) {
		t.Error("expected the command to have undone what it held")
	}
	if tainted, verdict := stateOf(t, terraform); !tainted || verdict != "interrupted" {
		t.Errorf("expected a tainted run that was interrupted, got %v %s", tainted, verdict)
	}

	if err := os.WriteFile(filepath.Join(folder, "second"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := terraform("apply", "-auto-approve", "-no-color").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if tainted, verdict := stateOf(t, terraform); tainted || verdict != "met" {
		t.Errorf("expected the next apply to run it again, got %v %s", tainted, verdict)
	}
}

// ownTerraform calls the real Terraform on a configuration in a folder, with this provider built.
func ownTerraform(t *testing.T, folder, config string) func(arguments ...string) *exec.Cmd {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "terraform-provider-fleet"), "../..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	required := "terraform {\n  required_providers {\n    fleet = { source = \"sparecraft/fleet\" }\n  }\n}\n"
	overrides := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"sparecraft/fleet\" = %q\n  }\n  direct {}\n}\n", folder)
	for name, text := range map[string]string{"main.tf": required + config, "cli.tfrc": overrides} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(arguments ...string) *exec.Cmd {
		command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Getenv("TF_ACC_TERRAFORM_PATH"), arguments...) //nolint:gosec // Terraform
		command.Dir = folder
		command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(folder, "cli.tfrc"), "CHECKPOINT_DISABLE=1")
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return command
	}
}

func stateOf(t *testing.T, terraform func(...string) *exec.Cmd) (tainted bool, verdict string) {
	t.Helper()
	out, err := terraform("show", "-json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Values struct {
			RootModule struct {
				Resources []struct {
					Tainted bool
					Values  struct{ Verdict string }
				}
			} `json:"root_module"`
		}
	}
	if err := json.Unmarshal(out, &state); err != nil || len(state.Values.RootModule.Resources) != 1 {
		t.Fatalf("expected one resource, got %s %v", out, err)
	}
	one := state.Values.RootModule.Resources[0]
	return one.Tainted, one.Values.Verdict
}
