package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// mutations change a workspace the same way every time for one seed.
var mutations = map[string]func(dir string, seed uint64) error{
	"edits":   editTree,
	"big":     editBig,
	"share95": share95,
}

// regular is a file of a workspace.
type regular struct {
	path string
	size int64
}

// listing is what mutations choose from: the regular files, and the directories
// of about twenty files. What git keeps is left alone.
func listing(dir string) (files []regular, small []string, err error) {
	count := map[string]int{}
	parents := map[string]bool{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			parents[filepath.Dir(path)] = true
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files = append(files, regular{path, info.Size()})
		count[filepath.Dir(path)]++
		return nil
	})
	for path, n := range count {
		if n >= 15 && n <= 25 && !parents[path] && path != dir {
			small = append(small, path)
		}
	}
	slices.Sort(small)
	return files, small, err
}

// editTree makes twenty small edits: ten files get a line in the middle, five
// are added, three deleted, two directories renamed.
func editTree(dir string, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	files, small, err := listing(dir)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f regular) bool { return f.size < 1000 || f.size > 200_000 })
	if len(files) < 13 || len(small) < 2 {
		return fmt.Errorf("%s: too small for twenty edits", dir)
	}
	r.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	r.Shuffle(len(small), func(i, j int) { small[i], small[j] = small[j], small[i] })
	for _, f := range files[:10] {
		if err := insert(f, fmt.Appendf(nil, "\n// edited %d %d\n", seed, r.Uint32())); err != nil {
			return err
		}
	}
	for _, f := range files[10:13] {
		if err := os.Remove(f.path); err != nil {
			return err
		}
	}
	for i := range 5 {
		if err := addFile(dir, seed, i, r); err != nil {
			return err
		}
	}
	for _, path := range small[:2] {
		if err := os.Rename(path, fmt.Sprintf("%s-renamed%d", path, seed)); err != nil {
			return err
		}
	}
	return nil
}

func addFile(dir string, seed uint64, i int, r *rand.Rand) error {
	added := filepath.Join(dir, fmt.Sprintf("added-%d", seed))
	if err := os.MkdirAll(added, 0o755); err != nil {
		return err
	}
	var content []byte
	for range 1 + r.IntN(40)*16 {
		content = fmt.Appendf(content, "%016x\n", r.Uint64())
	}
	return os.WriteFile(filepath.Join(added, fmt.Sprintf("new%d.txt", i)), content, 0o644)
}

// insert puts data into the middle of a file, in place.
func insert(f regular, data []byte) error {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	if err := os.Chmod(f.path, 0o644); err != nil {
		return err
	}
	return os.WriteFile(f.path, slices.Insert(content, len(content)/2, data...), 0o644)
}

// editBig inserts 1 KiB into the middle of the largest file and overwrites 1 MiB
// at a third of the second largest.
func editBig(dir string, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 2))
	files, _, err := listing(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b regular) int { return int(b.size - a.size) })
	if len(files) < 2 {
		return fmt.Errorf("%s: too small for two edits", dir)
	}
	if err := insert(files[0], noise(r, 1<<10)); err != nil {
		return err
	}
	return overwrite(files[1].path, files[1].size/3, noise(r, 1<<20))
}

func overwrite(path string, offset int64, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, offset)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// share95 changes a line in five percent of the files.
func share95(dir string, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 3))
	files, _, err := listing(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		chosen := sha256.Sum256(fmt.Appendf(nil, "%d%s", seed, f.path[len(dir):]))
		if f.size == 0 || chosen[0] >= 13 { // 13 of 256
			continue
		}
		if err := insert(f, fmt.Appendf(nil, "\n// ws %d %d\n", seed, r.Uint64())); err != nil {
			return err
		}
	}
	return nil
}
