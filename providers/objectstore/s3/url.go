package s3

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// errNoSecrets answers a URL with a user or a password; it repeats neither.
var errNoSecrets = errors.New("credentials do not belong in a URL, where others see them: " +
	"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of the shared credentials file with profile=NAME")

// parameters sets an option from each parameter of a URL.
var parameters = map[string]func(o *Options, value string) error{
	"endpoint":      func(o *Options, value string) error { o.Endpoint = value; return nil },
	"region":        func(o *Options, value string) error { o.Region = value; return nil },
	"path-style":    setPathStyle,
	"storage-class": func(o *Options, value string) error { o.StorageClass = value; return nil },
	"sse":           func(o *Options, value string) error { o.Encryption = Encryption(value); return nil },
	"sse-kms-key":   func(o *Options, value string) error { o.KMSKey = value; return nil },
	"checksum":      func(o *Options, value string) error { o.Checksum = Checksum(value); return nil },
	"ca":            func(o *Options, value string) error { o.CAFile = value; return nil },
	"profile":       func(o *Options, value string) error { o.Profile = value; return nil },
}

func setPathStyle(o *Options, value string) error {
	switch value {
	case "true":
		o.Addressing = AddressPath
	case "false":
		o.Addressing = AddressVirtualHost
	case "auto":
		o.Addressing = AddressAuto
	default:
		return fmt.Errorf("path-style=%s is neither true, false nor auto", value)
	}
	return nil
}

// ParseURL reads options from
//
//	s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION&profile=NAME
//
// where everything behind the bucket may be missing. Further parameters:
//
//	path-style=true|false|auto      Options.Addressing
//	storage-class=CLASS
//	sse=AES256|aws:kms, sse-kms-key=ID
//	checksum=crc32c|md5
//	ca=FILE
//
// A URL holds no secrets, and one that seems to is refused. Errors do not
// repeat it. Region may still be missing where Open needs one.
func ParseURL(rawURL string) (Options, error) {
	options, err := parseURL(rawURL)
	if err != nil {
		return Options{}, fmt.Errorf("s3 URL: %w", err)
	}
	return options, nil
}

func parseURL(rawURL string) (Options, error) {
	rest, ok := strings.CutPrefix(rawURL, "s3://")
	if !ok {
		return Options{}, errors.New("it does not start with s3://")
	}
	location, query, _ := strings.Cut(rest, "?")
	if strings.Contains(location, "@") {
		return Options{}, errNoSecrets
	}
	if strings.Contains(rest, "#") {
		return Options{}, errors.New("'#' has no meaning here")
	}
	bucket, prefix, _ := strings.Cut(location, "/")
	if strings.Contains(bucket, ":") {
		return Options{}, errors.New("the bucket comes first: s3://BUCKET/PREFIX?endpoint=https://HOST:PORT")
	}
	o := Options{Bucket: bucket, Prefix: strings.TrimSuffix(prefix, "/")}
	if err := o.setParameters(query); err != nil {
		return Options{}, err
	}
	unless := o
	if unless.Region == "" {
		unless.Region = defaultRegion // whoever opens the store may know it
	}
	return o, unless.validate()
}

func (o *Options) setParameters(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("its parameters are not name=value, with & between and % before codes of bytes")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set, known := parameters[name]
		switch {
		case secret(name):
			return errNoSecrets
		case !known:
			return fmt.Errorf("unknown parameter %q: known are %s", name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		case len(values[name]) > 1:
			return fmt.Errorf("parameter %s is given %d times", name, len(values[name]))
		}
		if err := set(o, values.Get(name)); err != nil {
			return err
		}
	}
	return nil
}

// secret recognizes the names under which people try to pass credentials.
func secret(parameter string) bool {
	name := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(parameter))
	for _, part := range []string{"accesskey", "secret", "password", "token", "credential"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
