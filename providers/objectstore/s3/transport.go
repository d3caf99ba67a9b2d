package s3

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// idleConnections to one store are kept for the next requests: as many as
// anybody sends at once. net/http keeps two, and would open and close
// connections all the time.
const idleConnections = 128

// newTransport makes connections. None of its own timeouts is about an answer:
// the time for that begins when the last byte of a request is handed to the
// kernel, which on a slow line holds minutes of it. See exchange.
func newTransport(o Options) (*http.Transport, error) {
	roots, err := trusted(o.CAFile)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{
		Timeout:   15 * time.Second,
		KeepAlive: 15 * time.Second,
		Control:   abortStalled(o.StallTimeout),
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // HTTP/2 would put all transfers on one connection
	return &http.Transport{
		Proxy:               o.Proxy,
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
