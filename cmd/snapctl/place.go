package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/file"
	"github.com/snapctl/snapctl/providers/objectstore/s3"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

// place is where a repository is: the path of a directory, or a URL.
type place string

var urlScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

func (p place) isURL() bool { return urlScheme.MatchString(string(p)) }

// isBelow reports whether the repository lies in a directory, given as resolved
// returns it.
func (p place) isBelow(dir string) bool { return !p.isURL() && beneath(resolved(string(p)), dir) }

// isAround reports whether a directory lies in the repository.
func (p place) isAround(dir string) bool { return !p.isURL() && beneath(dir, resolved(string(p))) }

// repoPlace returns where the repository is: --repo, SNAPCTL_REPO, or the user's
// own one.
func (c *cli) repoPlace() (place, error) {
	named := place(c.globals.repo)
	if named == "" {
		named = place(c.env.get(envRepo))
	}
	if named != "" {
		return named, named.check()
	}
	dir, err := c.env.userDir(envDataHome, ".local/share")
	if err != nil {
		return "", &usageError{err: fmt.Errorf("no repository is named, and %w", err), hint: "say where it is with --repo or " + envRepo}
	}
	return place(filepath.Join(dir, "repo")), nil
}

// check refuses URLs that mean nothing here.
func (p place) check() error {
	if p.isURL() && !strings.HasPrefix(string(p), "s3://") {
		return &usageError{
			err:  fmt.Errorf("repository %s: only s3:// URLs are known", p),
			hint: "give s3://BUCKET/PREFIX, or the path of a directory; one whose name looks like a URL needs ./ in front",
		}
	}
	return nil
}

// backing is what keeps the objects of a repository.
type backing interface {
	objectstore.Store
	Close() error
	// tidy removes what killed processes left a day ago or more.
	tidy(context.Context) error
	// traffic says what was asked of it so far; empty if nobody counted.
	traffic() string
}

// directory is a repository's directory.
type directory struct{ *file.Store }

// tidy lists one folder that is mostly empty.
func (d directory) tidy(ctx context.Context) error {
	_, err := d.RemoveStaleTemp(ctx)
	return err
}

func (directory) traffic() string { return "" }

// bucket is a repository's bucket, or a part of it.
type bucket struct {
	*transport.Store
	under *s3.Store
}

func (b bucket) Close() error { return b.under.Close() }

// tidy has nothing to do: an object appears whole or not at all.
func (bucket) tidy(context.Context) error { return nil }

func (b bucket) traffic() string {
	n := b.Counts()
	return fmt.Sprintf("%s (%d put, %d get, %d stat, %d list, %d delete; %d made again), %s sent, %s received",
		plural(uint64(n.Requests()), "request"), n.Put, n.Get, n.Stat, n.List, n.Delete, n.Retries, size(uint64(n.BytesUp)), size(uint64(n.BytesDown)))
}

// open opens the backing of a repository that exists. A path that leads to no
// directory is no repository.
func (c *cli) open(p place) (backing, error) {
	if p.isURL() {
		return c.openBucket(p)
	}
	store, err := file.Open(string(p))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		err = fmt.Errorf("%w: %w", engine.ErrNoRepository, err)
	}
	return directory{store}, err
}

// create opens the backing of a repository that is to be made.
func (c *cli) create(p place) (backing, error) {
	if p.isURL() {
		return c.openBucket(p)
	}
	store, err := file.Create(string(p))
	return directory{store}, err
}

// bucketOptions are what the URL of a bucket says.
func (p place) bucketOptions() (s3.Options, error) {
	opts, err := s3.ParseURL(string(p))
	if err != nil {
		err = &usageError{err: err, hint: "write s3://BUCKET/PREFIX?endpoint=https://HOST:PORT; docs/object-stores.md has all parameters"}
	}
	return opts, err
}

func (c *cli) openBucket(p place) (backing, error) {
	opts, err := p.bucketOptions()
	if err != nil {
		return nil, err
	}
	opts.Credentials = s3.DefaultCredentials(opts.Profile)
	if opts.Region == "" && opts.Endpoint == "" {
		opts.Region = s3.DefaultRegion(opts.Profile)
	}
	under, err := s3.Open(opts)
	if err != nil {
		return nil, &usageError{err: err, hint: "add what is missing to the URL, such as ?region=REGION or ?endpoint=https://HOST:PORT; docs/object-stores.md has all parameters"}
	}
	upload, download, err := c.globals.network.limits()
	if err != nil {
		return nil, err
	}
	return bucket{transport.New(under, transport.Options{
		UploadLimit: upload, DownloadLimit: download,
		Bulk: []string{"packs/"}, Immutable: []string{"packs/", "index/"},
		Waiting: newPatience(c.talk).tell,
	}), under}, nil
}
