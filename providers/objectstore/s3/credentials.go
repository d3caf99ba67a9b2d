package s3

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Credentials sign requests. They are kept until shortly before they expire,
// and then fetched anew. They are safe for concurrent use, by several stores
// too; make them with StaticCredentials or DefaultCredentials.
type Credentials struct {
	source  source
	slot    chan struct{} // holds one token: whoever has it may use source and renew, and set current
	renew   bool          // current is not to be used any longer
	current atomic.Pointer[credentials.Value]
}

// source is where credentials come from. Its methods are never called from two
// goroutines at once.
type source interface {
	retrieve(ctx context.Context) (credentials.Value, error)
	// stale says that what was retrieved last should be replaced soon.
	stale() bool
}

func newCredentials(from source) *Credentials {
	c := &Credentials{source: from, slot: make(chan struct{}, 1), renew: true}
	c.slot <- struct{}{}
	return c
}

// StaticCredentials are a key pair and, for temporary keys, a session token
// that is otherwise empty.
func StaticCredentials(accessKey, secretKey, sessionToken string) *Credentials {
	return newCredentials(static{credentials.Value{
		AccessKeyID:     accessKey,
		SecretAccessKey: secretKey,
		SessionToken:    sessionToken,
		SignerType:      credentials.SignatureV4,
	}})
}

type static struct{ value credentials.Value }

func (s static) retrieve(context.Context) (credentials.Value, error) {
	if s.value.AccessKeyID == "" || s.value.SecretAccessKey == "" {
		return credentials.Value{}, errors.New("access key or secret key is empty")
	}
	return s.value, nil
}

func (s static) stale() bool { return false }

// get returns credentials that have not expired.
func (c *Credentials) get(ctx context.Context) (*credentials.Value, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	if !c.renew && !c.source.stale() {
		return c.current.Load(), nil
	}
	value, err := c.source.retrieve(ctx)
	switch {
	case err == nil:
		c.current.Store(&value)
		c.renew = false
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case c.renew || expired(c.current.Load()):
		return nil, fmt.Errorf("no credentials: %w", err)
	}
	return c.current.Load(), nil // after an error too: those at hand hold a little longer
}

func expired(value *credentials.Value) bool {
	return !value.Expiration.IsZero() && !time.Now().Before(value.Expiration)
}

// rejected makes the next get fetch credentials anew: the store says that
// these have expired.
func (c *Credentials) rejected(ctx context.Context, value *credentials.Value) {
	if c.lock(ctx) != nil {
		return
	}
	defer c.unlock()
	if c.current.Load() == value {
		c.renew = true
	}
}

func (c *Credentials) lock(ctx context.Context) error {
	select {
	case <-c.slot:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Credentials) unlock() { c.slot <- struct{}{} }

// signer hands the current credentials to minio-go, which keeps a copy of its
// own until IsExpired says otherwise. It never waits: every call of a store has
// got its credentials just before. minio-go does not call two methods at once.
type signer struct {
	credentials *Credentials
	given       *credentials.Value
}

func (s *signer) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	s.given = s.credentials.current.Load()
	return *s.given, nil
}

func (s *signer) Retrieve() (credentials.Value, error) { return s.RetrieveWithCredContext(nil) }

func (s *signer) IsExpired() bool { return s.given != s.credentials.current.Load() }
