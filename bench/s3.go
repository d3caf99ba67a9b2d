package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/snapctl/snapctl/bench/link"
	"github.com/snapctl/snapctl/bench/measure"
)

// overS3 measures snapctl beside restic on a bucket of a versitygw on this
// machine, behind a link that counts requests, delays and limits.
type overS3 struct {
	*bench
	link    *link.Link
	snapctl tool // with a local repository
	restic  tool
	bucket  string // the URL of snapctl's repository
	ws      string // ws-node
}

const (
	accessKey = "bench-access-key"
	secretKey = "bench-secret-key"
	bucket    = "bench"
)

// s3 measures the parts that match only.
func (b *bench) s3(ctx context.Context, only *regexp.Regexp) (err error) {
	stop, endpoint, err := b.startGateway(ctx)
	if err != nil {
		return err
	}
	defer stop()
	l, err := link.New(endpoint)
	if err != nil {
		return err
	}
	defer l.Close()
	s := &overS3{bench: b, link: l}
	s.bucket = s.at("snapctl")
	for _, t := range b.tools {
		t.env = append(t.env, "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey)
		switch t.name {
		case "snapctl":
			s.snapctl = t
		case "restic":
			t.env = append(t.env, "RESTIC_REPOSITORY=s3:"+l.URL+"/"+bucket+"/restic")
			s.restic = t
		}
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"tiny snapshot", s.tiny}, {"small files", s.smallFiles},
		{"first push", s.first}, {"restore", s.restores}, {"limited rates", s.limited},
	} {
		if !only.MatchString(part.name) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// at is the URL of a repository in the bucket, at the far end of the link.
func (s *overS3) at(prefix string) string {
	return "s3://" + bucket + "/" + prefix + "?" + url.Values{"endpoint": {s.link.URL}}.Encode()
}

// startGateway runs a server in the scratch folder until stop is called.
func (b *bench) startGateway(ctx context.Context) (stop func(), endpoint string, err error) {
	if err := os.MkdirAll(filepath.Join(b.dir, "s3", bucket), 0o755); err != nil {
		return nil, "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	address := listener.Addr().String()
	listener.Close()
	server := exec.CommandContext(ctx, "versitygw", "--port", address, "--quiet", "posix", filepath.Join(b.dir, "s3"))
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	if err := server.Start(); err != nil {
		return nil, "", fmt.Errorf("versitygw: %w (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)", err)
	}
	stop = func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
	}
	for range 100 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return stop, "http://" + address, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return nil, "", fmt.Errorf("versitygw does not answer at %s", address)
}

// snap makes a command of snapctl on the bucket.
func (s *overS3) snap(args ...string) []string {
	return append([]string{s.snapctl.save[0], "--quiet", "--repo", s.bucket}, args...)
}

// local makes a command of snapctl on the local repository.
func (s *overS3) local(args ...string) []string {
	return append([]string{s.snapctl.save[0], "--quiet", "--repo", s.snapctl.repo}, args...)
}

// empty empties the bucket, and what both tools know of it.
func (s *overS3) empty(ctx context.Context) error {
	for _, dir := range []string{"snapctl", "restic"} {
		if err := os.RemoveAll(filepath.Join(s.dir, "s3", bucket, dir)); err != nil {
			return err
		}
	}
	for _, t := range []tool{s.snapctl, s.restic} {
		if err := os.RemoveAll(filepath.Join(s.dir, t.name, "cache")); err != nil {
			return err
		}
	}
	s.link.Reset(0, 0)
	if _, err := s.snapctl.run(ctx, s.snap("init", "--like", s.snapctl.repo), "", ""); err != nil {
		return err
	}
	_, err := s.restic.run(ctx, []string{"restic", "--quiet", "init", "--repository-version", "2"}, "", "")
	return err
}

// counted runs a command and tells what passed the link.
func (s *overS3) counted(ctx context.Context, t tool, command []string, target string) (measure.Run, link.Counts, error) {
	before := s.link.Counts()
	run, err := t.run(ctx, command, s.ws, target)
	return run, s.link.Counts().Since(before), err
}

// pair is a command of each tool, side by side.
type pair struct {
	ours, theirs measure.Series
	ourN, theirN link.Counts
}

func (s *overS3) compare(name string, p pair, goal float64) {
	fmt.Printf("\n%s\n", name)
	line := func(tool string, series measure.Series, c link.Counts) {
		peak := ""
		if rss := series.RSS(); rss > 0 {
			peak = fmt.Sprintf(" peak %d MiB,", rss>>20)
		}
		fmt.Printf("  %-9s %7.3f s wall,%s %d requests %v, %.1f MB\n", tool, series.Wall().Seconds(), peak, c.Total(), c.Requests, float64(c.Bytes)/1e6)
	}
	line("snapctl", p.ours, p.ourN)
	if len(p.theirs) == 0 {
		return
	}
	line("restic", p.theirs, p.theirN)
	ratio, word := measure.Ratio(p.ours, p.theirs), "reached"
	if ratio > goal {
		word = "not reached"
	}
	fmt.Printf("  wall / restic %5.2f x, goal %.2f x: %s\n", ratio, goal, word)
}

// ready saves ws-node in a local repository.
func (s *overS3) ready(ctx context.Context) (err error) {
	if s.ws, err = s.workspace(ctx, "ws-node"); err != nil {
		return err
	}
	if err := s.snapctl.reset(ctx); err != nil {
		return err
	}
	_, err = s.snapctl.run(ctx, s.local("snapshot", "$WS"), s.ws, "")
	return err
}

// filled is ready, with a bucket that holds ws-node for both tools.
func (s *overS3) filled(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.empty(ctx); err != nil {
		return err
	}
	if _, err := s.snapctl.run(ctx, s.local("push", s.bucket), "", ""); err != nil {
		return err
	}
	_, err := s.restic.run(ctx, []string{"restic", "--quiet", "backup", "$WS"}, s.ws, "")
	return err
}

// first measures saving into an empty bucket: a push, a snapshot at once, and
// restic's backup.
func (s *overS3) first(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var push, direct pair
	for n := range s.runs + 1 {
		if err := s.empty(ctx); err != nil {
			return err
		}
		ours, ourN, err := s.counted(ctx, s.snapctl, s.local("push", s.bucket), "")
		if err != nil {
			return err
		}
		theirs, theirN, err := s.counted(ctx, s.restic, []string{"restic", "--quiet", "backup", "$WS"}, "")
		if err != nil {
			return err
		}
		if err := s.empty(ctx); err != nil {
			return err
		}
		at, atN, err := s.counted(ctx, s.snapctl, s.snap("snapshot", "$WS"), "")
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		push.ours, push.ourN = append(push.ours, ours), ourN
		direct.ours, direct.ourN = append(direct.ours, at), atN
		push.theirs, push.theirN = append(push.theirs, theirs), theirN
	}
	direct.theirs, direct.theirN = push.theirs, push.theirN
	s.compare("first push, ws-node (restic: backup)", push, 0.5)
	s.compare("first snapshot into the bucket, ws-node", direct, 0.5)
	return nil
}

// restores measures restores with empty caches, and snapctl's with a warm one.
func (s *overS3) restores(ctx context.Context) error {
	if err := s.filled(ctx); err != nil {
		return err
	}
	var cold, warm pair
	for n := range s.runs + 1 {
		ours, ourN, err := s.restore(ctx, s.snapctl, s.snap("restore", "latest", "$TO"), coldCache)
		if err != nil {
			return err
		}
		again, againN, err := s.restore(ctx, s.snapctl, s.snap("restore", "latest", "$TO"), warmCache)
		if err != nil {
			return err
		}
		theirs, theirN, err := s.restore(ctx, s.restic, []string{"restic", "--quiet", "restore", "latest", "--target", "$TO"}, coldCache)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		cold.ours, cold.ourN = append(cold.ours, ours), ourN
		cold.theirs, cold.theirN = append(cold.theirs, theirs), theirN
		warm.ours, warm.ourN = append(warm.ours, again), againN
	}
	s.compare("restore into an empty cache, ws-node", cold, 0.4)
	s.compare("restore from the cache, ws-node", warm, 0)
	return nil
}

type cacheState int

const (
	coldCache cacheState = iota
	warmCache
)

func (s *overS3) restore(ctx context.Context, t tool, command []string, cache cacheState) (measure.Run, link.Counts, error) {
	target := filepath.Join(s.dir, "target")
	if err := os.RemoveAll(target); err != nil {
		return measure.Run{}, link.Counts{}, err
	}
	if cache == coldCache {
		if err := os.RemoveAll(filepath.Join(s.dir, t.name, "cache")); err != nil {
			return measure.Run{}, link.Counts{}, err
		}
	}
	run, counts, err := s.counted(ctx, t, command, target)
	os.RemoveAll(target) // scratch
	return run, counts, err
}

// limited measures restores at 30 ms and some rates.
func (s *overS3) limited(ctx context.Context) error {
	if err := s.filled(ctx); err != nil {
		return err
	}
	for _, megabytes := range []int{1, 10, 100} {
		s.link.Reset(roundTrip, megabytes*1_000_000)
		command := s.snap("restore", "latest", "$TO", "--source", s.ws)
		if megabytes == 1 { // the whole would take minutes
			command = append(command, "--path", "node_modules/typescript")
		}
		run, counts, err := s.restore(ctx, s.snapctl, command, coldCache)
		if err != nil {
			return err
		}
		fmt.Printf("\nrestore at 30 ms and %d MB/s: %.2f s, %d requests, %.1f MB, %.2f MB/s\n", megabytes, run.Wall.Seconds(), counts.Total(), float64(counts.Bytes)/1e6, float64(counts.Bytes)/1e6/run.Wall.Seconds())
	}
	return nil
}
