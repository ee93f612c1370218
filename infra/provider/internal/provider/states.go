package provider

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

const (
	stateName  = "terraform.tfstate"
	ownersOnly = fs.FileMode(0o600)
)

// protectStates takes the local states of a root module, which hold an identity's keys, and their
// backups from everybody but their owner. Terraform makes both with the mode that the umask leaves,
// and keeps the mode of a file that is there: it makes the state, empty, before it starts a
// provider, but the backup only when it writes, so an empty one is made here for it to fill.
//
// States that are elsewhere (`-state`, `path` of the backend) are their owner's to protect.
func protectStates(folder string) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	for _, pattern := range []string{
		stateName + "*", filepath.Join(stateName+".d", "*", stateName+"*"), "errored.tfstate",
	} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			diagnostics.Append(unprotected(pattern, err))
		}
		for _, file := range found {
			if err := protectState(file); err != nil {
				diagnostics.Append(unprotected(file, err))
			}
		}
	}
	return diagnostics
}

func protectState(file string) error {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return ignoring(err, fs.ErrNotExist)
	}
	if info.Mode().Perm()&^ownersOnly != 0 {
		if err := os.Chmod(file, ownersOnly); err != nil {
			return err
		}
	}
	if !strings.HasSuffix(file, stateName) || info.Size() == 0 {
		return nil // a backup, or a state without one
	}
	backup, err := os.OpenFile(file+".backup", os.O_WRONLY|os.O_CREATE|os.O_EXCL, ownersOnly)
	if err != nil {
		return ignoring(err, fs.ErrExist)
	}
	return backup.Close()
}

func ignoring(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// unprotected is a warning: what Terraform was called for can be done all the same.
func unprotected(file string, err error) diag.Diagnostic {
	return diag.NewWarningDiagnostic("Others may be able to read the state "+file,
		"It holds private keys. It could not be made mode 0600: "+err.Error()+
			".\nHint: make it yours, or remove it if it is a leftover.")
}
