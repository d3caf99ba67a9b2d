package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

const (
	manyBlobs = 1 << 20
	maxMemory = 256 << 20
)

// TestMemoryBesideALargeIndex saves ten files into a repository that others have
// filled with a million blobs, from a machine that has to read the whole index
// first.
func TestMemoryBesideALargeIndex(t *testing.T) {
	m := newMachine(t)
	m.indexBlobs(manyBlobs)
	files := tree{}
	for i := range 10 {
		files.put(t, m.ws, fmt.Sprint(i), uint64(i))
	}
	for _, state := range []string{"cold", "warm"} {
		files.put(t, m.ws, "0", uint64(len(state))<<32)
		o, peak := m.measured("snapshot", m.ws, "--json")
		t.Logf("%s: peak %d MiB, %v", state, peak>>20, o.took)
		if peak >= maxMemory {
			t.Errorf("%s: peak memory %d MiB, want less than %d", state, peak>>20, maxMemory>>20)
		}
		target := filepath.Join(m.dir, state)
		if _, peak = m.measured("restore", o.saved(t).Snapshot, target); peak >= maxMemory {
			t.Errorf("%s: peak memory of the restore %d MiB, want less than %d", state, peak>>20, maxMemory>>20)
		}
		if wrong := files.compare(target); wrong != "" {
			t.Error(wrong)
		}
	}
}

// measured runs what has to succeed, and returns its peak memory in bytes. A
// small program starts it: a process begins with the peak of the one that
// starts it, and this one is large.
func (m *machine) measured(args ...string) (outcome, int64) {
	m.t.Helper()
	note := filepath.Join(m.dir, "peak")
	starter := *m
	starter.binary = "/usr/bin/time"
	o := starter.must(append([]string{"-f", "%M", "-o", note, m.binary}, args...)...)
	text, err := os.ReadFile(note)
	if err != nil {
		m.t.Fatal(err)
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return o, kib << 10
}

// indexBlobs puts index segments that name so many blobs, in packs of 64 Ki.
func (m *machine) indexBlobs(n int) {
	m.t.Helper()
	store, err := file.Open(m.repo)
	if err != nil {
		m.t.Fatal(err)
	}
	defer store.Close()
	object, err := objectstore.ReadAll(m.t.Context(), store, config.Object, config.MaxSize)
	if err != nil {
		m.t.Fatal(err)
	}
	header, err := config.ReadHeader(object)
	if err != nil {
		m.t.Fatal(err)
	}
	material, _, err := keyring.Unlock(m.t.Context(), store, header.Repository, keyring.Credentials{Insecure: true})
	if err != nil {
		m.t.Fatal(err)
	}
	sealer := seal.New(seal.Key{Secret: material.Data, Family: header.Family}, seal.Default)
	random := rand.New(rand.NewPCG(1, 2))
	for ; n > 0; n -= 64 << 10 {
		if _, err := index.WriteSegments(m.t.Context(), store, sealer, []packfile.Pack{packOfTinyBlobs(random)}); err != nil {
			m.t.Fatal(err)
		}
	}
}

func packOfTinyBlobs(random *rand.Rand) packfile.Pack {
	p := packfile.Pack{Size: 17 << 20}
	fill := func(b []byte) {
		for ; len(b) > 0; b = b[8:] {
			binary.LittleEndian.PutUint64(b, random.Uint64())
		}
	}
	fill(p.Name[:])
	for offset := uint32(48); len(p.Frames) < 64; offset += 256 << 10 {
		frame := packfile.Frame{Kind: blob.Data, Offset: offset, Length: 256 << 10, Blobs: make([]packfile.Blob, 1<<10)}
		for i := range frame.Blobs {
			fill(frame.Blobs[i].ID[:])
			frame.Blobs[i].Length = 1000
		}
		p.Frames = append(p.Frames, frame)
	}
	return p
}
