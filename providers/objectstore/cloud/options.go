package cloud

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Connection is how to reach a store. The zero value fits both of the big ones.
type Connection struct {
	// CAFile holds certificates in PEM that are trusted beside those of the
	// system.
	CAFile string
	// Proxy names the proxy for a request, as http.ProxyFromEnvironment does.
	// Nil uses none.
	Proxy func(*http.Request) (*url.URL, error)

	// Timeout is how long the store may take to answer, beside the time that
	// the content takes. 0 is 60 seconds.
	Timeout time.Duration
	// MinRate is how many bytes a second must pass on average, in both
	// directions. 0 is 4 KiB: a slow line shared by a few uploads.
	MinRate int64
	// StallTimeout is how long nothing at all may arrive of an answer's
	// content. 0 is 60 seconds.
	StallTimeout time.Duration
}

func (c Connection) withDefaults() Connection {
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.MinRate == 0 {
		c.MinRate = 4 << 10
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = time.Minute
	}
	return c
}

func (c Connection) patience() patience {
	return patience{answer: c.Timeout, rate: c.MinRate, stall: c.StallTimeout}
}

func (c Connection) validate() error {
	if c.Timeout < 0 || c.MinRate < 0 || c.StallTimeout < 0 {
		return errors.New("timeouts and rates cannot be negative")
	}
	return nil
}

// idleConnections to one store are kept for the next requests: as many as
// anybody sends at once. net/http keeps two, and would open and close
// connections all the time.
const idleConnections = 128

// newTransport makes connections. None of its own timeouts is about an answer:
// see exchange.
func newTransport(c Connection) (*http.Transport, error) {
	roots, err := trusted(c.CAFile)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 15 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // HTTP/2 would put all transfers on one connection
	return &http.Transport{
		Proxy:               c.Proxy,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 15 * time.Second,
		Protocols:           protocols,
		DisableCompression:  true, // bytes are stored as they are, and ranges are of those
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     30 * time.Second, // before most stores close them
		WriteBufferSize:     32 << 10,
		ReadBufferSize:      32 << 10,
	}, nil
}

// trusted returns the system's certificates and those of a file; nil is the
// system's alone.
func trusted(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read trusted certificates: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the file is meant to be enough then
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", caFile)
	}
	return pool, nil
}

// MaxPrefix is the longest Prefix in bytes: together with a slash and the
// longest key it makes the 1024 that both stores allow for a name.
const MaxPrefix = 511

// validPrefix is objectstore.ValidKey, but a component may start with a dot:
// no file system is involved.
func validPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if len(prefix) > MaxPrefix {
		return fmt.Errorf("prefix of %d bytes is longer than %d", len(prefix), MaxPrefix)
	}
	for component := range strings.SplitSeq(prefix, "/") {
		if component == "" || component == "." || component == ".." {
			return fmt.Errorf("prefix %q has an empty component, or one of dots", prefix)
		}
	}
	if strings.ContainsFunc(prefix, func(r rune) bool { return r != '/' && !keyRune(r) }) {
		return fmt.Errorf("prefix %q may have only ASCII letters, digits, '.', '_', '-' and '/'", prefix)
	}
	return nil
}

func keyRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return true
	}
	return r == '.' || r == '_' || r == '-'
}

// parseEndpoint accepts a scheme and a host, and a path if any comes behind.
func parseEndpoint(endpoint string) (*url.URL, error) {
	if strings.ContainsAny(endpoint, "@?#") {
		return nil, errors.New("endpoint must be an address alone: secrets go into the credentials")
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("endpoint must be https://host:port, or http://host:port for a store without TLS")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}
