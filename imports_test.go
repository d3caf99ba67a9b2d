// Package snapctl_test holds the rules that bind the whole module.
package snapctl_test

import (
	"go/build"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/snapctl/snapctl/"

// mayImport says which packages of this module each package may import
// directly. A trailing "/..." admits a whole subtree.
// A package that is not listed here fails the test: it has to find its place.
var mayImport = map[string][]string{
	// Naming, sealing and packing content: no package of ours but their own.
	"packfile/blob": {},
	"packfile/wire": {},
	"packfile/seal": {"packfile/wire"},
	"packfile":      {"packfile/blob", "packfile/seal", "packfile/wire"},

	// Stores know nothing of what they keep.
	"providers/objectstore":                 {},
	"providers/objectstore/mem":             {"providers/objectstore"},
	"providers/objectstore/file":            {"providers/objectstore"},
	"providers/objectstore/cache":           {"providers/objectstore"},
	"providers/objectstore/fault":           {"providers/objectstore"},
	"providers/objectstore/probe":           {"providers/objectstore"},
	"providers/objectstore/s3":              {"providers/objectstore"},
	"providers/objectstore/s3/s3test":       {"providers/objectstore/objectstoretest/localserver"},
	"providers/objectstore/objectstoretest": {"providers/objectstore", "providers/objectstore/mem"},

	"providers/objectstore/objectstoretest/localserver": {},
	// A module of its own.
	"providers/objectstore/cloud":           {"providers/objectstore"},
	"providers/objectstore/cloud/cloudtest": {"providers/objectstore/objectstoretest/localserver"},
	"providers/objectstore/transport":       {"providers/objectstore"},

	"index":         {"index/localdb", "packfile/...", "packfile", "providers/objectstore"},
	"index/localdb": {},

	// The steps of a snapshot, in their order.
	"engine/manifest":            {"packfile/blob", "packfile/wire"},
	"engine/chunk":               {"packfile/blob"},
	"engine/workspace/ignore":    {},
	"engine/workspace/statcache": {"index/localdb", "packfile/blob", "packfile/wire", "engine/manifest"},
	"engine/workspace":           {"packfile/blob", "engine/manifest", "engine/chunk", "engine/workspace/ignore", "engine/workspace/statcache"},
	"engine/ingest":              {"packfile", "packfile/blob", "packfile/seal", "index", "providers/objectstore"},
	"engine/commit":              {"packfile", "packfile/blob", "packfile/seal", "packfile/wire", "index", "engine/manifest", "providers/objectstore"},

	// The way back.
	"engine/fetch":   {"packfile", "packfile/blob", "packfile/seal", "packfile/wire", "index", "providers/objectstore"},
	"engine/restore": {"packfile", "packfile/blob", "packfile/wire", "index", "engine/manifest", "engine/fetch"},

	// From one repository into another.
	"engine/transfer": {"packfile", "packfile/blob", "packfile/seal", "engine/manifest", "engine/fetch", "engine/ingest"},

	// What checks remember.
	"engine/verified": {"packfile", "packfile/wire"},

	// What a repository is opened with.
	"engine/config":  {"packfile/blob", "packfile/seal", "packfile/wire"},
	"engine/keyring": {"engine/config", "packfile/blob", "packfile/seal", "packfile/wire", "providers/objectstore"},

	// What no snapshot needs any more.
	"gc/idset": {"packfile/blob"},
	// Runs the engine, from its tests; by itself it only reads what lies in a store.
	"gc/explore": {"packfile", "packfile/blob", "packfile/seal", "index", "engine/manifest", "engine/commit", "providers/objectstore", "providers/objectstore/mem"},
	// Which snapshots stay: data in, a plan out.
	"gc/retention": {"packfile/blob"},
	"gc":           {"gc/idset", "packfile", "packfile/blob", "index", "engine/manifest", "engine/fetch", "engine/ingest", "engine/commit", "providers/objectstore"},

	// The public API composes the above; it knows no concrete store.
	"engine": {"engine/...", "gc", "gc/...", "index", "packfile", "packfile/...", "providers/objectstore", "providers/objectstore/cache", "providers/objectstore/probe"},

	"cmd/snapctl":   {"engine", "engine/...", "gc", "gc/...", "packfile/blob", "providers/..."},
	"bench":         {"bench/measure", "bench/link", "engine", "engine/keyring", "providers/objectstore/file", "providers/objectstore/s3", "providers/objectstore/transport"},
	"bench/measure": {},
	"bench/link":    {},
	"fuzz":          {"..."},
}

func TestImportsKeepTheLayers(t *testing.T) {
	for _, dir := range packageDirs(t) {
		allowed, listed := mayImport[dir]
		if !listed {
			t.Errorf("%s: no rule says what it may import: add it to mayImport", dir)
			continue
		}
		pkg, err := build.ImportDir(dir, 0)
		if err != nil {
			if _, onlyTests := err.(*build.NoGoError); onlyTests {
				continue
			}
			t.Fatal(err)
		}
		for _, imported := range pkg.Imports {
			own, ok := strings.CutPrefix(imported, module)
			if ok && !admits(allowed, own) {
				t.Errorf("%s imports %s, which its layer does not allow", dir, own)
			}
		}
	}
}

func admits(allowed []string, pkg string) bool {
	return slices.ContainsFunc(allowed, func(rule string) bool {
		prefix, subtree := strings.CutSuffix(rule, "...")
		return rule == pkg || subtree && strings.HasPrefix(pkg, prefix)
	})
}

// TestCloudSDKsStayOut looks at all that a program imports which keeps its
// objects on S3: nothing of the SDKs of other clouds, which are many times as
// large as everything else. They belong to the module providers/objectstore/cloud.
func TestCloudSDKsStayOut(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./engine", "./providers/objectstore/s3", "./cmd/snapctl")
	list.Stderr = t.Output()
	packages, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(packages))
	for _, entry := range []string{module + "engine", module + "providers/objectstore/s3", module + "cmd/snapctl"} {
		if !slices.Contains(lines, entry) {
			t.Errorf("%s is not in the list", entry)
		}
	}
	for _, line := range lines {
		for _, sdk := range []string{"cloud.google.com", "google.golang.org/grpc", "google.golang.org/api", "github.com/Azure", "gocloud.dev"} {
			if line == sdk || strings.HasPrefix(line, sdk+"/") {
				t.Errorf("%s is imported", line)
			}
		}
	}
}

// TestRulesNamePackages fails for a rule whose package is gone.
func TestRulesNamePackages(t *testing.T) {
	dirs := packageDirs(t)
	for dir := range mayImport {
		if !slices.Contains(dirs, dir) {
			t.Errorf("mayImport has a rule for %s, which is no package", dir)
		}
	}
}

// packageDirs lists the folders that hold Go files, but for this one.
func packageDirs(t *testing.T) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" || filepath.Dir(path) == "." {
			return nil
		}
		if dir := filepath.ToSlash(filepath.Dir(path)); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// TestNoGrabBags keeps packages nouns.
func TestNoGrabBags(t *testing.T) {
	for _, dir := range packageDirs(t) {
		if slices.Contains([]string{"util", "utils", "common", "base", "types", "helpers", "misc"}, filepath.Base(dir)) {
			t.Errorf("%s: name the thing that the package holds", dir)
		}
	}
}

// TestLicence makes sure that the licence is there and whole.
func TestLicence(t *testing.T) {
	text, err := os.ReadFile("LICENSE")
	if err != nil || !strings.Contains(string(text), "Apache License") {
		t.Fatalf("LICENSE: %v", err)
	}
}
