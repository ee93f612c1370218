// Package sparecraft runs the `sparecraft` command once, and reads its result.
package sparecraft

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	outputMax = 64 << 20 // of a result; the greatest seen was 2 MB
	lineMax   = 8 << 10
	tailLines = 12

	// CleanUp is the time that the command has to undo and remove everything after it was told to end.
	CleanUp = 15 * time.Minute
)

// Run is one call of `sparecraft run`.
type Run struct {
	Command string // the program: a path, or a name on PATH
	Design  string // a folder, or the name of a design that comes with Sparecraft
	Results string // the folder that runs are kept in
	Seed    *int64 // nil: the design's own

	QuietWaitS int64 // most seconds that each block waits for a quiet host

	// JSON of the outputs of a permanent fleet; both empty: the run makes one and removes it.
	Fleet, Identity string
}

// Failed is a run without a result.
type Failed struct {
	Place, Expected, Got, Hint string
	Interrupted                bool   // it was told to end, and undid what it had done
	Folder                     string // what was measured until then; empty where nothing was
}

func (f *Failed) Error() string {
	return fmt.Sprintf("%s: expected %s (got %s)", f.Place, f.Expected, f.Got)
}

// Do runs the command. When the context ends the command gets one SIGTERM: it undoes its faults and
// removes its fleet, which Do waits for. If this process is killed, the kernel sends it the same.
// Its output goes to progress line by line. An error is a *Failed.
func (r Run) Do(
	ctx context.Context, environment []string, now func() time.Time, progress func(line string),
) (*Result, error) {
	arguments, forget, err := r.arguments()
	if err != nil {
		return nil, r.failed("fleet and identity in JSON, and a private file for them", err.Error(), "give the outputs by jsonencode; see that TMPDIR has space")
	}
	defer forget()

	began := now()
	var output limited
	said := lines{each: progress}
	command := exec.CommandContext(ctx, r.Command, arguments...)
	command.Env = childEnvironment(environment)
	command.Stdout, command.Stderr = &output, &said
	// A group of its own: Ctrl-C in a terminal reaches the whole of Terraform's, and would tell it twice.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	command.Cancel = func() error {
		progress("interrupted: waiting until sparecraft has undone its faults and removed its fleet")
		return command.Process.Signal(syscall.SIGTERM)
	}
	command.WaitDelay = CleanUp

	// The kernel sends Pdeathsig when the thread that started the command ends.
	runtime.LockOSThread()
	err = command.Run()
	runtime.UnlockOSThread()
	said.end()

	failed := r.judged(ctx, err, output, said.tail)
	if failed == nil {
		result, readErr := read(output.Bytes(), r.Results)
		if readErr == nil {
			return result, nil
		}
		failed = r.failed("a result in JSON", readErr.Error(), "see that command is the sparecraft of this provider's version")
	}
	failed.Folder = newest(r.Results, began)
	return nil, failed
}

// judged is nil where the command printed a result: codes 0 and 1 say whether it passed.
func (r Run) judged(ctx context.Context, err error, output limited, tail []string) *Failed {
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		got := "an interrupt"
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			got = "the end of the time that timeouts allows"
		}
		failed := r.failed("the run to reach its end", got, "apply again: it measures anew")
		failed.Interrupted = true
		if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() { //nolint:forcetypeassert // Linux
			failed.Hint = "the command was killed before it had cleaned up: call `sparecraft down`, then apply again"
		}
		return failed
	case err != nil && !errors.As(err, &exit):
		return r.failed("a program that can be started", err.Error(), "set command to the path of sparecraft (`make setup` installs it in .venv/bin)")
	case output.cut:
		return r.failed(fmt.Sprintf("a result of at most %d MB", outputMax>>20), "more", "see that command is sparecraft")
	}
	var said struct {
		Error *struct{ Place, Expected, Got, Hint string }
	}
	if json.Unmarshal(output.Bytes(), &said) == nil && said.Error != nil {
		return &Failed{Place: said.Error.Place, Expected: said.Error.Expected, Got: said.Error.Got, Hint: said.Error.Hint}
	}
	if err != nil && exit.ExitCode() != 1 {
		return r.failed("a result", err.Error()+"; it said: "+strings.Join(tail, "\n"), "call `sparecraft run "+r.Design+"` by hand")
	}
	return nil
}

func (r Run) failed(expected, got, hint string) *Failed {
	return &Failed{Place: "sparecraft run " + r.Design, Expected: expected, Got: got, Hint: hint}
}

// arguments are the command's, and what removes the private file that may be among them.
func (r Run) arguments() ([]string, func(), error) {
	arguments := []string{"run", r.Design, "--json", "--results", r.Results}
	if r.Seed != nil {
		arguments = append(arguments, "--seed", strconv.FormatInt(*r.Seed, 10))
	}
	if r.QuietWaitS > 0 {
		arguments = append(arguments, "--quiet-wait", strconv.FormatInt(r.QuietWaitS, 10))
	}
	if r.Fleet == "" {
		return arguments, func() {}, nil
	}
	outputs, err := json.Marshal(map[string]json.RawMessage{
		"fleet": json.RawMessage(r.Fleet), "identity": json.RawMessage(r.Identity),
	})
	if err != nil {
		return nil, nil, err
	}
	file, err := os.CreateTemp("", "sparecraft-fleet-*.json") // 0600: it holds the client's key
	if err != nil {
		return nil, nil, err
	}
	forget := func() { _ = os.Remove(file.Name()) }
	_, err = file.Write(outputs)
	if err = errors.Join(err, file.Close()); err != nil {
		forget()
		return nil, nil, err
	}
	return append(arguments, "--attach", file.Name()), forget, nil
}

// childEnvironment leaves out what is this provider's and this Terraform's own: the command calls Terraform
// itself, on another root module. Where to find providers (TF_CLI_CONFIG_FILE) holds for both.
func childEnvironment(environment []string) []string {
	kept := []string{"COLUMNS=200"} // lines of the log are not broken
	for _, one := range environment {
		name, _, _ := strings.Cut(one, "=")
		own := strings.HasPrefix(name, "TF_") || strings.HasPrefix(name, "PLUGIN_") || name == "COLUMNS"
		if !own || name == "TF_CLI_CONFIG_FILE" || name == "TF_PLUGIN_CACHE_DIR" {
			kept = append(kept, one)
		}
	}
	return kept
}

// limited keeps the first outputMax bytes.
type limited struct {
	bytes.Buffer
	cut bool
}

func (l *limited) Write(data []byte) (int, error) {
	if room := outputMax - l.Len(); len(data) > room {
		l.cut = true
		_, _ = l.Buffer.Write(data[:room])
		return len(data), nil
	}
	return l.Buffer.Write(data)
}

// lines hands on each whole line, and keeps the last ones.
type lines struct {
	each func(string)
	tail []string
	part []byte
}

func (l *lines) Write(data []byte) (int, error) {
	for _, one := range data {
		if one == '\n' || len(l.part) == lineMax {
			l.end()
		}
		if one != '\n' {
			l.part = append(l.part, one)
		}
	}
	return len(data), nil
}

// end hands on what no end of line followed.
func (l *lines) end() {
	line := strings.TrimRight(string(l.part), " \r")
	l.part = l.part[:0]
	if line == "" {
		return
	}
	l.each(line)
	if l.tail = append(l.tail, line); len(l.tail) > tailLines {
		l.tail = l.tail[1:]
	}
}
