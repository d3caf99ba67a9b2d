package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

// scenes damage a repository, each in its way, as docs/recovery.md tells.
var scenes = map[string]func(*scene){
	"damaged file, workspace": func(s *scene) {
		s.models()
		s.flip(s.packs(8 << 20)[0], 3<<20)
	},
	"damaged file, copy": func(s *scene) {
		s.models()
		s.copy()
		s.flip(s.packs(8 << 20)[0], 3<<20)
		s.must("rm -r /workspace")
	},
	"damaged file, nothing": func(s *scene) {
		s.models()
		s.flip(s.packs(8 << 20)[0], 3<<20)
		s.must("rm -r /workspace")
	},
	"index": func(s *scene) {
		s.small()
		s.must("rm /srv/snapshots/index/*")
	},
	"gone, copy": func(s *scene) {
		s.small()
		s.copy()
		s.must("rm -r /srv/snapshots")
	},
	"gone, config": func(s *scene) {
		s.small()
		s.must("cp -a /srv/snapshots/config /srv/snapshots/keys /safe/")
		s.must("rm /srv/snapshots/config")
	},
	"key, backup": func(s *scene) {
		s.small()
		s.must("mv ~/.config/snapctl/identity.txt /safe/identity.txt")
	},
	"key, other holder": func(s *scene) {
		s.small()
		s.must("echo correct horse battery staple > /safe/passphrase")
		s.must("snapctl key add --new-passphrase-file /safe/passphrase --comment ops")
		s.must("rm ~/.config/snapctl/identity.txt")
	},
	"full": func(s *scene) {
		*s = *sceneAt(s.t, s.dir, filepath.Join(newDisk(s.t, "size=48m").dir, "repo"))
		s.must("snapctl init")
		s.write("old", 20<<20)
		s.save("3f9a1c22")
		s.must("rm /workspace/old")
		s.write("new", 30<<20)
	},
	"rolled back": func(s *scene) {
		s.small()
		s.must("cp -a /srv/snapshots /safe/old")
		s.must("echo later > /workspace/later.txt")
		s.save("8b02e7d4")
		s.must("rm -r /srv/snapshots")
		s.must("cp -a /safe/old /srv/snapshots")
	},
	"collector killed": killCollectors,
	"clock":            wrongClock,
	"forgot": func(s *scene) {
		s.small()
		s.must("echo later > /workspace/later.txt")
		s.save("8b02e7d4")
		s.must("snapctl forget 3f9a1c22")
	},
	"half of the packs": func(s *scene) {
		s.must("snapctl init")
		for i, name := range []string{"3f9a1c22", "8b02e7d4", "c1775a90"} {
			s.write(string(rune('a'+i)), 10<<20)
			s.save(name)
		}
		s.copy()
		s.must("rm /workspace/a")
		for _, pack := range s.packs(8 << 20)[:2] {
			if err := os.Remove(pack); err != nil {
				s.t.Fatal(err)
			}
		}
	},
	"attempt": func(s *scene) {
		s.small()
		s.must("mkdir -p /srv/snapshots/pending")
		s.must("echo nonsense > /srv/snapshots/pending/5d41402abc4b2a76b9719d911017c592")
	},
	"condemned": func(s *scene) {
		s.small()
		s.must("mkdir -p /srv/snapshots/gc/0000000001")
		s.must("echo nonsense > /srv/snapshots/gc/0000000001/condemned")
	},
	"list": func(s *scene) {
		s.small()
		s.must("echo later > /workspace/later.txt")
		s.save("8b02e7d4")
		id := s.must("snapctl show 3f9a1c22 --json | cut -d'\"' -f4")
		s.must("for f in /srv/snapshots/snapshots/" + id + "/*; do chmod 600 $f; echo nonsense > $f; done")
	},
}

// small saves a small workspace.
func (s *scene) small() {
	s.t.Helper()
	s.must("snapctl init")
	s.must("mkdir /workspace/src; echo notes > /workspace/notes.txt; echo main > /workspace/src/main.go")
	s.save("3f9a1c22")
}

// models saves a workspace with a large file and two small ones.
func (s *scene) models() {
	s.t.Helper()
	s.must("snapctl init")
	s.must("mkdir /workspace/src; echo notes > /workspace/notes.txt; echo main > /workspace/src/main.go")
	s.write("model.bin", 12<<20)
	// One reader: whose frame the small files are in does not depend on who was faster.
	s.call("3f9a1c22", s.must("GOMAXPROCS=1 snapctl snapshot /workspace --quiet"))
}

// copy pushes everything into another repository.
func (s *scene) copy() {
	s.t.Helper()
	s.must("snapctl init --repo /mnt/copy --like /srv/snapshots")
	s.must("snapctl push /mnt/copy --all")
}

// killCollectors forgets a snapshot and kills collections of it at many moments.
func killCollectors(s *scene) {
	s.t.Helper()
	s.must("snapctl init")
	s.write("a", 1<<20)
	s.save("3f9a1c22")
	for i := range 20 {
		s.must("echo " + strings.Repeat("x", i) + " > /workspace/b")
		s.save("8b02e7d4")
		s.must("snapctl forget 8b02e7d4")
		s.run("timeout -s KILL " + (time.Duration(i*3) * time.Millisecond).Truncate(time.Millisecond).String() + " snapctl gc --undo-window 0 --grace 0")
	}
}

// wrongClock takes a snapshot of another source on a machine whose clock is a year
// ahead.
func wrongClock(s *scene) {
	s.t.Helper()
	s.small()
	identity, err := os.Open(filepath.Join(s.dir, "home/.config/snapctl/identity.txt"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer identity.Close()
	identities, err := keyring.ParseIdentities(identity)
	if err != nil {
		s.t.Fatal(err)
	}
	store, err := file.Open(s.at("/srv/snapshots"))
	if err != nil {
		s.t.Fatal(err)
	}
	ahead := func() time.Time { return time.Now().Add(365 * 24 * time.Hour) }
	repo, err := engine.Open(s.t.Context(), store, engine.OpenOptions{Credentials: engine.Credentials{Identities: identities}, Now: ahead})
	if err != nil {
		s.t.Fatal(err)
	}
	saved, err := repo.Snapshot(s.t.Context(), engine.SnapshotOptions{Path: s.at("/workspace"), Source: "agent-7"})
	if err := errors.Join(err, repo.Close(), store.Close()); err != nil {
		s.t.Fatal(err)
	}
	s.call("8b02e7d4", saved.Snapshot.String())
}
