package s3

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Options say which bucket a Store uses, and how. Bucket, Credentials and one
// of Endpoint and Region are required.
type Options struct {
	Bucket string
	// Prefix is put before all keys, with a slash between. Empty uses the
	// whole bucket. It has the bytes of keys, and at most MaxPrefix of them.
	Prefix string

	// Endpoint is https://host, http://host or one of these with a port.
	// Empty is Amazon in Region.
	Endpoint string
	// Region is part of what is signed. Empty is us-east-1 at an Endpoint,
	// which most stores take for their own.
	Region     string
	Addressing Addressing

	// Credentials sign the requests. See StaticCredentials and
	// DefaultCredentials.
	Credentials *Credentials
	// Profile is the profile that a URL asks for, to be given to
	// DefaultCredentials; Open does not use it.
	Profile string

	StorageClass string     // of new objects; empty is the bucket's default
	Encryption   Encryption // at rest by the store, of new objects
	KMSKey       string     // id of the key for EncryptKMS; empty is the bucket's default
	Checksum     Checksum   // of uploads

	// CAFile holds certificates in PEM that are trusted beside those of the
	// system.
	CAFile string
	// Proxy names the proxy for a request, as http.ProxyFromEnvironment does.
	// Nil uses none.
	Proxy func(*http.Request) (*url.URL, error)

	// Timeout is how long the store may take to answer, beside the time that
	// the content takes. 0 is 60 seconds: large stores answer within a few,
	// small ones collect garbage.
	Timeout time.Duration
	// MinRate is how many bytes a second must pass on average, in both
	// directions. 0 is 4 KiB: a slow line shared by a few uploads.
	MinRate int64
	// StallTimeout is how long nothing at all may pass. 0 is 60 seconds.
	StallTimeout time.Duration
}

// Addressing is where the bucket goes in a request.
type Addressing string

// The ways to address a bucket.
const (
	AddressAuto        Addressing = ""     // as the name of a host at Amazon and Google, in the path elsewhere
	AddressPath        Addressing = "path" // https://host/bucket/key
	AddressVirtualHost Addressing = "host" // https://bucket.host/key
)

// Encryption is what the store does to new objects at rest.
type Encryption string

// The kinds of encryption at rest.
const (
	EncryptDefault Encryption = ""        // what the bucket is set up for
	EncryptAES256  Encryption = "AES256"  // with keys of the store
	EncryptKMS     Encryption = "aws:kms" // with a key of a key service
)

// Checksum is how the store sees that an upload was damaged on the way.
type Checksum string

// The checksums. A store that does not know CRC32C mostly ignores it.
const (
	ChecksumAuto   Checksum = ""       // MD5 at Google, CRC32C elsewhere
	ChecksumCRC32C Checksum = "crc32c" // costs next to nothing
	ChecksumMD5    Checksum = "md5"    // known to every store
)

// MaxPrefix is the longest Options.Prefix in bytes: together with a slash and
// the longest key it makes the 1024 bytes that S3 allows.
const MaxPrefix = 511

// defaultRegion is what stores other than Amazon expect mostly.
const defaultRegion = "us-east-1"

// amazon stands for the endpoints of all regions; minio-go picks the one.
const amazon = "https://s3.amazonaws.com"

func (o Options) withDefaults() Options {
	if o.Region == "" && o.Endpoint != "" {
		o.Region = defaultRegion
	}
	if o.Endpoint == "" {
		o.Endpoint = amazon
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.MinRate == 0 {
		o.MinRate = 4 << 10
	}
	if o.StallTimeout == 0 {
		o.StallTimeout = time.Minute
	}
	return o
}

// validate checks everything but the credentials.
func (o Options) validate() error {
	if o.Bucket == "" {
		return errors.New("no bucket is named")
	}
	if err := s3utils.CheckValidBucketName(o.Bucket); err != nil {
		return fmt.Errorf("bucket %q: %w", o.Bucket, err)
	}
	if err := validPrefix(o.Prefix); err != nil {
		return err
	}
	if err := o.validServer(); err != nil {
		return err
	}
	if o.Timeout < 0 || o.MinRate < 0 || o.StallTimeout < 0 {
		return errors.New("timeouts and rates cannot be negative")
	}
	return o.validObjects()
}

func (o Options) validServer() error {
	if o.Endpoint == "" && o.Region == "" {
		return errors.New("neither an endpoint nor a region is given: Amazon needs the region of the bucket, other stores need their address")
	}
	if o.Endpoint != "" {
		if _, err := parseEndpoint(o.Endpoint); err != nil {
			return err
		}
	}
	switch o.Addressing {
	case AddressAuto, AddressPath, AddressVirtualHost:
		return nil
	}
	return fmt.Errorf("addressing %q is neither %q nor %q", o.Addressing, AddressPath, AddressVirtualHost)
}

func (o Options) validObjects() error {
	switch o.Encryption {
	case EncryptDefault, EncryptAES256, EncryptKMS:
	default:
		return fmt.Errorf("encryption %q is neither %s nor %s", o.Encryption, EncryptAES256, EncryptKMS)
	}
	if o.KMSKey != "" && o.Encryption != EncryptKMS {
		return fmt.Errorf("a key for encryption is named, but encryption is not %s", EncryptKMS)
	}
	switch o.Checksum {
	case ChecksumAuto, ChecksumCRC32C, ChecksumMD5:
		return nil
	}
	return fmt.Errorf("checksum %q is neither %s nor %s", o.Checksum, ChecksumCRC32C, ChecksumMD5)
}

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

func parseEndpoint(endpoint string) (*url.URL, error) {
	if strings.Contains(endpoint, "@") {
		return nil, errNoSecrets
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("endpoint must be https://host:port, or http://host:port for a store without TLS")
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("endpoint must be a scheme and a host, nothing behind: the bucket goes into s3://BUCKET")
	}
	return u, nil
}
