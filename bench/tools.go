package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/snapctl/snapctl/bench/measure"
	"github.com/snapctl/snapctl/engine/keyring"
)

// tool is one program under measurement, with a repository of its own. A
// command that a tool does not have is nil.
type tool struct {
	name    string
	version string
	env     []string
	repo    string
	// ready makes an empty repository; not measured.
	ready [][]string
	// The measured commands. $WS stands for the workspace, $TO for where to
	// restore, $REPO for the repository.
	save, restore, restoreOver, verify []string
}

// installed returns the tools that are on this machine, each with its files
// below dir.
func installed(ctx context.Context, snapctl, dir string) []tool {
	all := []tool{snapctlTool(snapctl, dir), resticTool(dir), kopiaTool(dir), tarZstdTool(dir), tarTool(dir), findTool()}
	var found []tool
	for _, t := range all {
		if path, err := exec.LookPath(firstWord(t)); err == nil {
			t.version = firstLine(ctx, path, t.name)
			found = append(found, t)
		}
	}
	return found
}

func firstWord(t tool) string {
	if t.name == "tar|zstd" {
		return "zstd"
	}
	return t.save[0]
}

func firstLine(ctx context.Context, path, name string) string {
	arg := "--version"
	if name == "snapctl" || name == "restic" {
		arg = "version"
	}
	out, err := exec.CommandContext(ctx, path, arg).Output()
	if err != nil {
		return name
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

func snapctlTool(path, dir string) tool {
	dir = filepath.Join(dir, "snapctl")
	repo := filepath.Join(dir, "repo")
	command := func(args ...string) []string { return append([]string{path, "--quiet", "--repo", repo}, args...) }
	return tool{
		name: "snapctl", repo: repo,
		env: []string{
			"XDG_CONFIG_HOME=" + filepath.Join(dir, "config"), "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"),
			"XDG_DATA_HOME=" + filepath.Join(dir, "data"),
		},
		ready:       [][]string{command("init")},
		save:        command("snapshot", "$WS"),
		restore:     command("restore", "latest", "$TO"),
		restoreOver: command("restore", "latest", "$TO", "--delete"),
		verify:      command("check", "--read-data"),
	}
}

func resticTool(dir string) tool {
	dir = filepath.Join(dir, "restic")
	repo := filepath.Join(dir, "repo")
	command := func(args ...string) []string { return append([]string{"restic", "--quiet", "--repo", repo}, args...) }
	return tool{
		name: "restic", repo: repo,
		env:         []string{"RESTIC_PASSWORD=bench", "XDG_CACHE_HOME=" + filepath.Join(dir, "cache")},
		ready:       [][]string{command("init", "--repository-version", "2")},
		save:        command("backup", "$WS"),
		restore:     command("restore", "latest", "--target", "$TO"),
		restoreOver: overwriting(command("restore", "latest", "--target", "$TO")),
		verify:      command("check", "--read-data"),
	}
}

// overwriting adds the option that came with restic 0.17. An older one fails on
// every symbolic link that is there; the way over a tree is then to remove it.
func overwriting(restore []string) []string {
	help, err := exec.Command("restic", "restore", "--help").Output()
	if err != nil || !strings.Contains(string(help), "--overwrite") {
		return nil
	}
	return append(restore, "--overwrite", "if-changed", "--delete")
}

func kopiaTool(dir string) tool {
	dir = filepath.Join(dir, "kopia")
	repo := filepath.Join(dir, "repo")
	command := func(args ...string) []string { return append([]string{"kopia", "--no-progress"}, args...) }
	return tool{
		name: "kopia", repo: repo,
		env: []string{
			"KOPIA_PASSWORD=bench", "KOPIA_CHECK_FOR_UPDATES=false", "KOPIA_CONFIG_PATH=" + filepath.Join(dir, "config"),
			"KOPIA_CACHE_DIRECTORY=" + filepath.Join(dir, "cache"), "KOPIA_LOG_DIR=" + filepath.Join(dir, "log"),
		},
		ready: [][]string{
			command("repository", "create", "filesystem", "--path", repo),
			command("policy", "set", "--global", "--compression", "zstd-fastest"),
		},
		save: command("snapshot", "create", "$WS"),
	}
}

// tarZstdTool is what people do without a tool.
func tarZstdTool(dir string) tool {
	repo := filepath.Join(dir, "tarzstd")
	return tool{
		name: "tar|zstd", repo: repo,
		ready: [][]string{{"mkdir", "-p", repo}},
		save:  []string{"sh", "-c", "tar -C $WS -cf - . | zstd -q -f -1 -T2 -o " + filepath.Join(repo, "all.tar.zst")},
	}
}

// tarTool is the floor of a restore: an uncompressed archive in memory.
func tarTool(dir string) tool {
	repo := filepath.Join(dir, "tar")
	archive := filepath.Join(repo, "all.tar")
	return tool{
		name: "tar", repo: repo,
		ready:   [][]string{{"mkdir", "-p", repo}},
		save:    []string{"tar", "-C", "$WS", "-cf", archive, "."},
		restore: []string{"tar", "-C", "$TO", "-xpf", archive},
	}
}

// findTool is the floor of looking at a tree.
func findTool() tool {
	return tool{name: "find", save: []string{"find", "$WS", "-printf", "%p %i %C@ %T@ %s %m\n"}}
}

// run runs one of the tool's commands.
func (t tool) run(ctx context.Context, command []string, workspace, target string) (measure.Run, error) {
	replace := strings.NewReplacer("$WS", workspace, "$TO", target, "$REPO", t.repo)
	args := make([]string, len(command))
	for i, arg := range command {
		args[i] = replace.Replace(arg)
	}
	run, err := measure.Command(ctx, t.env, args[0], args[1:]...)
	if err != nil {
		err = fmt.Errorf("%s: %w", t.name, err)
	}
	return run, err
}

// reset throws the tool's repository and caches away and makes a new one.
func (t tool) reset(ctx context.Context) error {
	if t.repo == "" {
		return nil
	}
	if t.ready[0][0] == "mkdir" {
		if err := os.RemoveAll(t.repo); err != nil {
			return err
		}
	} else if err := os.RemoveAll(filepath.Dir(t.repo)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(t.repo), 0o755); err != nil {
		return err
	}
	for _, command := range t.ready {
		if _, err := t.run(ctx, command, "", ""); err != nil {
			return err
		}
	}
	return nil
}

// stored is the size of everything in the tool's repository in bytes.
func (t tool) stored() int64 {
	var total int64
	filepath.WalkDir(t.repo, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil // what vanishes meanwhile does not count
	})
	return total
}

// identitiesOf reads the identity that snapctl init made for the tool.
func identitiesOf(t tool) ([]age.Identity, error) {
	for _, variable := range t.env {
		if dir, ok := strings.CutPrefix(variable, "XDG_CONFIG_HOME="); ok {
			f, err := os.Open(filepath.Join(dir, "snapctl", "identity.txt"))
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return keyring.ParseIdentities(f)
		}
	}
	return nil, fmt.Errorf("%s has no identity", t.name)
}
