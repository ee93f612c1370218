// Package buildcontext is the exact set of files that a Docker build sees, and one hash of it.
//
// Terraform has to know at plan time whether an image is out of date, so the hash covers what
// decides the image and nothing else: paths, contents, executable bits, build arguments, the
// Dockerfile's name and stage, and the ids of the images it begins from. Times, owners, the place of the checkout and a
// developer's umask do not count, and are not in the tar either.
package buildcontext

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// Spec describes a build.
type Spec struct {
	Dir        string            // the context directory on this host
	Dockerfile string            // path of the Dockerfile in the context
	Ignore     []string          // patterns that the directory's .dockerignore is taken to begin with
	Files      map[string]string // path in the context -> path on this host, over the directory's own
	Target     string            // the stage of the Dockerfile that is wanted, empty for the last
	BuildArgs  map[string]string
	BaseID     string // id of the base image, empty when not watched
	StockID    string // id of the stock image, empty where there is none
}

// Context is a Spec whose files were listed and hashed.
type Context struct {
	Hash    string
	entries []entry
}

type entry struct {
	path   string // in the context, with slashes
	host   string
	mode   int64
	target string // of a symbolic link
}

// Load lists and hashes the files of a spec.
func Load(spec Spec) (*Context, error) {
	ignored, err := ignoreRules(spec)
	if err != nil {
		return nil, err
	}
	files, err := list(spec.Dir, ignored)
	if err != nil {
		return nil, err
	}
	for name, host := range spec.Files {
		if files[path.Clean(name)], err = describe(path.Clean(name), host); err != nil {
			return nil, fmt.Errorf("file %q of the build context: %w", name, err)
		}
	}
	if _, ok := files[path.Clean(spec.Dockerfile)]; !ok {
		return nil, fmt.Errorf(
			"expected the Dockerfile %q in %s, there is none",
			spec.Dockerfile,
			spec.Dir,
		)
	}
	context := &Context{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		context.entries = append(context.entries, files[name])
	}
	context.Hash, err = hash(spec, context.entries)
	return context, err
}

func ignoreRules(spec Spec) (*patternmatcher.PatternMatcher, error) {
	file, err := os.Open(filepath.Join(spec.Dir, ".dockerignore"))
	if errors.Is(err, fs.ErrNotExist) {
		return patternmatcher.New(spec.Ignore)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	return patternmatcher.New(slices.Concat(spec.Ignore, patterns))
}

func list(dir string, ignored *patternmatcher.PatternMatcher) (map[string]entry, error) {
	files := map[string]entry{}
	err := filepath.WalkDir(dir, func(host string, item fs.DirEntry, err error) error {
		if err != nil || item.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, host)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if skip, err := ignored.MatchesOrParentMatches(name); err != nil || skip {
			return err
		}
		files[name], err = describe(name, host)
		return err
	})
	return files, err
}

// describe notes a file's kind; modes become 0755 or 0644, which is all that git keeps as well.
func describe(name, host string) (entry, error) {
	info, err := os.Lstat(host)
	if err != nil {
		return entry{}, err
	}
	found := entry{path: name, host: host, mode: 0o644}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		found.target, err = os.Readlink(host)
		found.mode = 0o777
	case !info.Mode().IsRegular():
		err = fmt.Errorf("expected a file or a symbolic link, %s is a %s", host, info.Mode().Type())
	case info.Mode()&0o100 != 0:
		found.mode = 0o755
	}
	return found, err
}

func hash(spec Spec, entries []entry) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "dockerfile %q\nbase %q\n", path.Clean(spec.Dockerfile), spec.BaseID)
	if spec.Target != "" {
		fmt.Fprintf(sum, "target %q\n", spec.Target)
	}
	if spec.StockID != "" {
		fmt.Fprintf(sum, "stock %q\n", spec.StockID)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.BuildArgs)) {
		fmt.Fprintf(sum, "arg %q %q\n", name, spec.BuildArgs[name])
	}
	for _, entry := range entries {
		content := sha256.New()
		if entry.target == "" {
			if err := copyFile(content, entry.host); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(sum, "file %q %o %q %x\n", entry.path, entry.mode, entry.target, content.Sum(nil))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// WriteTar writes the context as the tar that Docker's build takes.
func (c *Context) WriteTar(w io.Writer) error {
	archive := tar.NewWriter(w)
	for _, entry := range c.entries {
		if err := writeEntry(archive, entry); err != nil {
			return fmt.Errorf("put %s into the build context: %w", entry.path, err)
		}
	}
	return archive.Close()
}

func writeEntry(archive *tar.Writer, entry entry) error {
	if entry.target != "" {
		return archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeSymlink, Name: entry.path, Linkname: entry.target, Mode: entry.mode,
		})
	}
	info, err := os.Stat(entry.host)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: entry.path, Mode: entry.mode, Size: info.Size()}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	return copyFile(archive, entry.host)
}

func copyFile(w io.Writer, host string) error {
	file, err := os.Open(host)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// CheckPath refuses a path that would leave the context.
func CheckPath(name string) error {
	clean := path.Clean(name)
	if name == "" || path.IsAbs(name) || clean == "." || clean == ".." ||
		strings.HasPrefix(clean, "../") {
		return fmt.Errorf("expected a path inside the build context such as bin/nodeagent (got %q)", name)
	}
	return nil
}
