package sparecraft

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// helperResults names, in the environment, the folder of a test that kills its provider.
const helperResults = "SPARECRAFT_TEST_RESULTS"

// stub is a command that does what the script says; $folder is the results folder that it was given.
func stub(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sparecraft")
	text := "#!/bin/sh\nfolder=$5\n" + script + "\n"
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return file
}

// untilTold holds something that it gives back when it is told to end, as a run holds faults and a fleet.
const untilTold = `
mkdir -p "$folder"
trap 'rm "$folder/held"; echo "{\"error\": {\"got\": \"an interrupt\"}}"; exit 130' TERM
touch "$folder/held"
echo provisioning >&2
while :; do sleep 0.05; done`

func do(t *testing.T, ctx context.Context, run Run, environment ...string) (*Result, *Failed, []string) { //nolint:revive // t first
	t.Helper()
	var said []string
	environment = append(os.Environ(), environment...)
	result, err := run.Do(ctx, environment, time.Now, func(line string) { said = append(said, line) })
	var failed *Failed
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("expected *Failed, got %T", err)
	}
	return result, failed, said
}

func awaitFile(t *testing.T, name string, there bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); existing(name) != "" != there; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("expected %s to be there: %v", name, there)
		}
	}
}

const passing = `{"kind": "compare", "experiment": "demo", "run": "20260101T000000Z", "valid": true, "disturbed": null,
"verdicts": {"measurement": {"ok": true, "reasons": []}, "cleanup": {"ok": true, "reasons": []}},
"slo": {"arm": "replicated", "met": true, "verdict": "met", "reasons": []},
"compare": {"arms": {"baseline": {"p95_ms": 90.5}, "replicated": {"p95_ms": 12.25}}, "compared": {"other": "replicated"},
"plan": {"feasible": true, "usd_per_month": 61.5, "tiers": {"web": {"nodes": 2}}, "inputs": {"mode": "results"}, "tfvars": "x"}}}`

func TestResultIsWhatTheCommandPrinted(t *testing.T) {
	results := t.TempDir()
	command := stub(t, "cat <<'END'\n"+passing+"\nEND\necho 'one line' >&2; echo two >&2")
	result, failed, said := do(t, t.Context(), Run{Command: command, Design: "demo", Results: results})
	if failed != nil {
		t.Fatal(failed)
	}
	if result.Verdict != "met" || !*result.Met || *result.P95MS != 12.25 || *result.USDPerMonth != 61.5 || !result.Passed() {
		t.Errorf("expected the SLO's arm and the plan's price, got %+v", result)
	}
	if want := filepath.Join(results, "demo", "20260101T000000Z"); result.Folder != want {
		t.Errorf("expected the folder %s, got %s", want, result.Folder)
	}
	if strings.Contains(result.Plan, "inputs") || !strings.Contains(result.Plan, `"nodes":2`) {
		t.Errorf("expected the plan without its inputs, got %s", result.Plan)
	}
	if !slices.Equal(said, []string{"one line", "two"}) {
		t.Errorf("expected each line of progress, got %q", said)
	}
}

func TestVerdictOfEachResult(t *testing.T) {
	for change, want := range map[string]string{
		`"met": true, "verdict": "met"|"met": false, "verdict": "missed"`:                        "missed",
		`"met": true, "verdict": "met"|"met": null, "verdict": "undecided"`:                      "undecided",
		`"valid": true|"valid": false`:                                                           NotValid,
		`"valid": true, "disturbed": null|"valid": false, "disturbed": {}`:                       Disturbed,
		`"slo": {"arm": "replicated", "met": true, "verdict": "met", "reasons": []}|"slo": null`: Measured,
	} {
		old, replacement, _ := strings.Cut(change, "|")
		if !strings.Contains(passing, old) {
			t.Fatalf("no %s in the result", old)
		}
		result, err := read([]byte(strings.Replace(passing, old, replacement, 1)), t.TempDir())
		if err != nil || result.Verdict != want {
			t.Errorf("expected %s, got %+v %v", want, result, err)
		}
	}
}

func TestAnUndecidedPlanHasNoPrice(t *testing.T) {
	undecided := strings.Replace(passing, `"feasible": true`, `"feasible": null`, 1)
	result, err := read([]byte(undecided), t.TempDir())
	if err != nil || result.USDPerMonth != nil || !strings.Contains(result.Plan, `"usd_per_month":61.5`) {
		t.Errorf("expected no price outside of the plan, got %+v %v", result, err)
	}
}

func TestWithoutAnSLOTheComparedArmIsTold(t *testing.T) {
	old := `"slo": {"arm": "replicated", "met": true, "verdict": "met", "reasons": []}`
	result, err := read([]byte(strings.Replace(passing, old, `"slo": null`, 1)), t.TempDir())
	if err != nil || *result.P95MS != 12.25 {
		t.Errorf("expected the other arm's p95, got %+v %v", result, err)
	}
}

func TestWhatIsLeftBehindIsNoPass(t *testing.T) {
	old := `"cleanup": {"ok": true, "reasons": []}`
	text := strings.Replace(passing, old, `"cleanup": {"ok": false, "reasons": ["web-1 is still there"]}`, 1)
	result, err := read([]byte(text), t.TempDir())
	if err != nil || result.Passed() || result.Left[0] != "web-1 is still there" {
		t.Errorf("expected what was left, got %+v %v", result, err)
	}
}

func TestErrorOfTheCommandIsPassedOn(t *testing.T) {
	command := stub(t, `echo '{"error": {"place": "this host", "expected": "no other run", "got": "a run (process 7)", "hint": "Wait."}}'; exit 3`)
	_, failed, _ := do(t, t.Context(), Run{Command: command, Design: "demo", Results: t.TempDir()})
	if failed == nil || failed.Place != "this host" || failed.Got != "a run (process 7)" || failed.Hint != "Wait." || failed.Interrupted {
		t.Errorf("expected the command's own words, got %+v", failed)
	}
}

func TestNoResultIsNoSuccess(t *testing.T) {
	for name, command := range map[string]string{
		"silent":         stub(t, "exit 0"),
		"no JSON":        stub(t, "echo hello"),
		"another's JSON": stub(t, "echo '{}'"),
		"crash":          stub(t, "echo trouble >&2; exit 7"),
		"cut off":        stub(t, "kill -9 $$"),
		"absent":         filepath.Join(t.TempDir(), "absent"),
	} {
		if _, failed, _ := do(t, t.Context(), Run{Command: command, Design: "demo", Results: t.TempDir()}); failed == nil || failed.Got == "" {
			t.Errorf("%s: expected an error that says what got, got %+v", name, failed)
		}
	}
}

func TestInterruptTellsTheCommandAndWaitsForItsCleanUp(t *testing.T) {
	results := t.TempDir()
	held := filepath.Join(results, "held")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // also where the test has failed meanwhile
		defer cancel()
		for existing(held) == "" && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	_, failed, _ := do(t, ctx, Run{Command: stub(t, untilTold), Design: "demo", Results: results})
	if failed == nil || !failed.Interrupted {
		t.Errorf("expected an interrupted run, got %+v", failed)
	}
	if existing(held) != "" {
		t.Error("expected nothing to be held when Do returns")
	}
}

func TestFolderOfAnEarlyEndIsFound(t *testing.T) {
	results := t.TempDir()
	older := filepath.Join(results, "demo", "20200101T000000Z")
	if err := os.MkdirAll(older, 0o755); err != nil { //nolint:gosec // a test's
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(older, "manifest.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	command := stub(t, `run=$folder/demo/$(date -u +%Y%m%dT%H%M%SZ); mkdir -p $run; touch $run/manifest.json; exit 1`)
	_, failed, _ := do(t, t.Context(), Run{Command: command, Design: "demo", Results: results})
	if failed == nil || failed.Folder == "" || failed.Folder == older {
		t.Errorf("expected this run's folder, got %+v", failed)
	}
	_, failed, _ = do(t, t.Context(), Run{Command: stub(t, "exit 1"), Design: "demo", Results: filepath.Join(results, "none")})
	if failed == nil || failed.Folder != "" {
		t.Errorf("expected no folder, got %+v", failed)
	}
}

func TestFleetIsHandedOverInAPrivateFileThatGoes(t *testing.T) {
	results, seed := t.TempDir(), int64(7)
	command := stub(t, `echo "$@" > "$folder/arguments"; stat -c %a "$9" > "$folder/mode"; cat "$9" > "$folder/content"; exit 1`)
	do(t, t.Context(), Run{Command: command, Design: "demo", Results: results, Seed: &seed, Fleet: "1", Identity: "2"})
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(results, name)) //nolint:gosec // a test's
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if read("mode") != "600" || read("content") != `{"fleet":1,"identity":2}` {
		t.Errorf("expected the outputs in a private file, got %s %s", read("mode"), read("content"))
	}
	arguments := strings.Fields(read("arguments"))
	want := []string{"run", "demo", "--json", "--results", results, "--seed", "7", "--attach"}
	if !slices.Equal(arguments[:8], want) || existing(arguments[8]) != "" {
		t.Errorf("expected %v and a file that is gone, got %v", want, arguments)
	}
}

func TestFleetThatIsNoJSONIsRefusedBeforeTheCommandIsCalled(t *testing.T) {
	results := t.TempDir()
	command := stub(t, `touch "$folder/called"`)
	run := Run{Command: command, Design: "demo", Results: results, Fleet: "{", Identity: "{}"}
	if _, failed, _ := do(t, t.Context(), run); failed == nil || existing(filepath.Join(results, "called")) != "" {
		t.Errorf("expected a refusal, got %+v", failed)
	}
}

func TestCommandSeesNothingOfTheTerraformThatCallsIt(t *testing.T) {
	results := t.TempDir()
	command := stub(t, `env > "$folder/environment"; exit 1`)
	do(t, t.Context(), Run{Command: command, Design: "demo", Results: results},
		"TF_WORKSPACE=mine", "TF_VAR_tiers={}", "TF_REATTACH_PROVIDERS={}", "PLUGIN_MIN_PORT=1",
		"TF_CLI_CONFIG_FILE=/etc/kept", "DOCKER_HOST=kept")
	seen, err := os.ReadFile(filepath.Join(results, "environment")) //nolint:gosec // a test's
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"TF_WORKSPACE", "TF_VAR_tiers", "TF_REATTACH_PROVIDERS", "PLUGIN_MIN_PORT"} {
		if strings.Contains(string(seen), name+"=") {
			t.Errorf("expected no %s", name)
		}
	}
	for _, kept := range []string{"TF_CLI_CONFIG_FILE=/etc/kept", "DOCKER_HOST=kept"} {
		if !strings.Contains(string(seen), kept) {
			t.Errorf("expected %s", kept)
		}
	}
}

// TestKilledProviderEndsTheCommand kills another process of this test that has the command run.
func TestKilledProviderEndsTheCommand(t *testing.T) {
	if results := os.Getenv(helperResults); results != "" {
		do(t, t.Context(), Run{Command: os.Getenv("SPARECRAFT_TEST_STUB"), Design: "demo", Results: results})
		return
	}
	results := t.TempDir()
	provider := exec.Command(os.Args[0], "-test.run=^TestKilledProviderEndsTheCommand$") //nolint:gosec,noctx // this test
	provider.Env = append(os.Environ(), helperResults+"="+results, "SPARECRAFT_TEST_STUB="+stub(t, untilTold))
	if err := provider.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, filepath.Join(results, "held"), true)
	if err := provider.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = provider.Wait() // it was killed
	awaitFile(t, filepath.Join(results, "held"), false)
}
