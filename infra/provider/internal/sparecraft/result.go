package sparecraft

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Verdicts of a run beyond those of its SLO (met, missed, undecided).
const (
	Measured    = "measured" // valid, and no SLO was asked for
	NotValid    = "not valid"
	Disturbed   = "disturbed" // not valid, as other work on the host had too much of it
	Interrupted = "interrupted"
)

// Result is what a run found, as far as Terraform shows it; what was not found is nil.
type Result struct {
	Run         string
	Folder      string
	Report      string
	Valid       bool
	Verdict     string
	Met         *bool
	P95MS       *float64 // of the arm that the SLO is asked of
	USDPerMonth *float64 // of the planned fleet
	Plan        string   // JSON; empty where nothing was planned
	Reasons     []string // why it is not valid, or its SLO not met
	Left        []string // what the clean-up could not remove
}

// Passed is what exit code 0 says.
func (r *Result) Passed() bool {
	return r.Valid && (r.Met == nil || *r.Met) && len(r.Left) == 0
}

type head struct {
	Kind       string
	Experiment string
	Run        string
	Valid      bool
	Disturbed  json.RawMessage
	SLO        *struct {
		Arm     string
		Met     *bool
		Verdict string
		Reasons []string
		Arms    map[string]struct{ Reasons []string }
	}
	Verdicts map[string]struct {
		OK      bool
		Reasons []string
	}
}

// body is a kind's own part: kinds that compare arms have these.
type body struct {
	Arms map[string]struct {
		P95MS *float64 `json:"p95_ms"`
	}
	Compared struct{ Other string }
	Plan     map[string]json.RawMessage
}

// read takes the result of a run that is kept in the folder results.
func read(output []byte, results string) (*Result, error) {
	var top head
	if err := json.Unmarshal(output, &top); err != nil {
		return nil, err
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(output, &parts); err != nil {
		return nil, err
	}
	if top.Kind == "" || top.Run == "" || top.Experiment == "" {
		return nil, errors.New("no kind, experiment and run in it")
	}
	var own body
	if err := json.Unmarshal(parts[top.Kind], &own); err != nil {
		return nil, fmt.Errorf("%s: %w", top.Kind, err)
	}
	result := &Result{Run: top.Run, Valid: top.Valid, Verdict: verdict(top)}
	if top.SLO != nil {
		result.Met = top.SLO.Met
	}
	result.Reasons, result.Left = reasons(top)
	result.P95MS = p95(top, own)
	if err := result.takePlan(own.Plan); err != nil {
		return nil, err
	}
	result.Folder = folderOf(results, top)
	result.Report = existing(filepath.Join(result.Folder, "report.html"))
	return result, nil
}

func verdict(top head) string {
	switch {
	case !top.Valid && len(top.Disturbed) > 0 && string(top.Disturbed) != "null":
		return Disturbed
	case !top.Valid:
		return NotValid
	case top.SLO == nil:
		return Measured
	}
	return top.SLO.Verdict
}

func reasons(top head) (why, left []string) {
	for _, name := range []string{"measurement", "injection", "revert"} {
		why = append(why, top.Verdicts[name].Reasons...)
	}
	if top.SLO != nil && len(why) == 0 {
		why = append(top.SLO.Reasons, top.SLO.Arms[top.SLO.Arm].Reasons...)
	}
	if clean := top.Verdicts["cleanup"]; !clean.OK {
		left = append(clean.Reasons, "the clean-up failed")
	}
	return why, left
}

// p95 is that of the arm that the SLO is asked of; without one, of the arm that is compared with the baseline,
// or of the only one.
func p95(top head, own body) *float64 {
	names := []string{own.Compared.Other}
	if top.SLO != nil {
		names = []string{top.SLO.Arm, own.Compared.Other}
	}
	for _, name := range names {
		if arm, ok := own.Arms[name]; ok {
			return arm.P95MS
		}
	}
	if len(own.Arms) == 1 {
		for _, arm := range own.Arms {
			return arm.P95MS
		}
	}
	return nil
}

// takePlan keeps the plan without how it was computed.
func (r *Result) takePlan(plan map[string]json.RawMessage) error {
	if plan == nil {
		return nil
	}
	if string(plan["feasible"]) == "true" { // else it is undecided: its fleet is no answer
		if err := json.Unmarshal(plan["usd_per_month"], &r.USDPerMonth); err != nil {
			return fmt.Errorf("plan.usd_per_month: %w", err)
		}
	}
	delete(plan, "inputs")
	delete(plan, "solver")
	text, err := json.Marshal(plan)
	r.Plan = string(text)
	return err
}

// folderOf is results/EXPERIMENT/RUN, or results/EXPERIMENT/KIND/RUN where the kind is not the design's own.
func folderOf(results string, top head) string {
	folder := filepath.Join(results, top.Experiment, top.Run)
	if of := filepath.Join(results, top.Experiment, top.Kind, top.Run); existing(of) != "" {
		folder = of
	}
	return folder
}

func existing(name string) string {
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// newest is the last run below results that began at or after a time: runs are called by when they began.
func newest(results string, began time.Time) string {
	first, found := began.UTC().Format("20060102T150405Z"), ""
	for _, pattern := range []string{"*/*/manifest.json", "*/*/*/manifest.json"} {
		files, _ := filepath.Glob(filepath.Join(results, pattern)) // the pattern is right
		for _, file := range files {
			folder := filepath.Dir(file)
			run := filepath.Base(folder)
			info, err := os.Lstat(folder)
			isLink := err != nil || info.Mode()&fs.ModeSymlink != 0
			if !isLink && strings.HasSuffix(run, "Z") && run >= first && run > filepath.Base(found) {
				found = folder
			}
		}
	}
	return found
}
