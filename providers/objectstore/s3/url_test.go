package s3

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseURL(t *testing.T) {
	for url, want := range map[string]Options{
		"s3://bucket?region=eu-west-1":  {Bucket: "bucket", Region: "eu-west-1"},
		"s3://bucket/?region=eu-west-1": {Bucket: "bucket", Region: "eu-west-1"},
		"s3://bucket":                   {Bucket: "bucket"},
		"s3://bucket/a/.b/c-d_e.f/":     {Bucket: "bucket", Prefix: "a/.b/c-d_e.f"},
		"s3://bucket/a?endpoint=http://127.0.0.1:9000": {
			Bucket: "bucket", Prefix: "a", Endpoint: "http://127.0.0.1:9000",
		},
		"s3://b.u.c/p?endpoint=https%3A%2F%2F[::1]:9000/&region=x&path-style=true&storage-class=STANDARD_IA&sse=aws:kms&sse-kms-key=arn:aws:kms:eu-west-1:1:key/2&checksum=md5&ca=/etc/ca.pem&profile=work": {
			Bucket: "b.u.c", Prefix: "p", Endpoint: "https://[::1]:9000/", Region: "x", Addressing: AddressPath,
			StorageClass: "STANDARD_IA", Encryption: EncryptKMS, KMSKey: "arn:aws:kms:eu-west-1:1:key/2",
			Checksum: ChecksumMD5, CAFile: "/etc/ca.pem", Profile: "work",
		},
		"s3://bucket?path-style=false&sse=AES256&checksum=crc32c": {
			Bucket: "bucket", Addressing: AddressVirtualHost, Encryption: EncryptAES256, Checksum: ChecksumCRC32C,
		},
		"s3://bucket?path-style=auto&endpoint=": {Bucket: "bucket"},
	} {
		got, err := ParseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got.Proxy, got.Credentials = nil, nil
		if !sameOptions(got, want) {
			t.Errorf("%s: %+v, want %+v", url, got, want)
		}
	}
}

func sameOptions(a, b Options) bool {
	return a.Bucket == b.Bucket && a.Prefix == b.Prefix && a.Endpoint == b.Endpoint && a.Region == b.Region &&
		a.Addressing == b.Addressing && a.StorageClass == b.StorageClass && a.Encryption == b.Encryption &&
		a.KMSKey == b.KMSKey && a.Checksum == b.Checksum && a.CAFile == b.CAFile && a.Profile == b.Profile
}

func TestParseURLRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"":                                                "does not start with s3://",
		"https://bucket/key":                              "does not start with s3://",
		"s3://":                                           "no bucket",
		"s3:///prefix":                                    "no bucket",
		"s3://b":                                          "bucket",
		"s3://host:9000/bucket":                           "the bucket comes first",
		"s3://bucket/a//b":                                "empty component",
		"s3://bucket/a/../b":                              "one of dots",
		"s3://bucket/a b":                                 "only ASCII letters",
		"s3://bucket/a%20b":                               "only ASCII letters",
		"s3://bucket/ä":                                   "only ASCII letters",
		"s3://bucket/a#b":                                 "'#'",
		"s3://bucket?endpoint=%zz":                        "name=value",
		"s3://bucket?regoin=x":                            `unknown parameter "regoin": known are ca, checksum, endpoint, path-style, profile, region, sse, sse-kms-key, storage-class`,
		"s3://bucket?region=x&region=y":                   "given 2 times",
		"s3://bucket?path-style=yes":                      "neither true, false nor auto",
		"s3://bucket?sse=rot13":                           "rot13",
		"s3://bucket?sse-kms-key=k":                       "not aws:kms",
		"s3://bucket?checksum=sha1":                       "sha1",
		"s3://bucket?endpoint=127.0.0.1:9000":             "endpoint must be https://",
		"s3://bucket?endpoint=ftp://host":                 "endpoint must be https://",
		"s3://bucket?endpoint=https://":                   "endpoint must be https://",
		"s3://bucket?endpoint=https://host/bucket":        "nothing behind",
		"s3://bucket?endpoint=https://host%3Fx":           "nothing behind",
		"s3://bucket/" + strings.Repeat("p", MaxPrefix+1): "longer than 511",
	} {
		_, err := ParseURL(url)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", url, err, want)
		}
	}
}

// TestURLsWithSecrets checks that credentials in a URL are refused, wherever
// they stand, and are not repeated in the error.
func TestURLsWithSecrets(t *testing.T) {
	forms := []string{
		"s3://KEY:HIDDEN@bucket/prefix",
		"s3://HIDDEN@bucket?region=x",
		"s3://KEY:HIDDEN%zz@bucket",
		"s3://bucket/KEY:HIDDEN@prefix",
		"s3://bucket?endpoint=https://KEY:HIDDEN@host",
		"s3://bucket?secret-key=HIDDEN",
		"s3://bucket?AWS_SECRET_ACCESS_KEY=HIDDEN",
		"s3://bucket?access_key=HIDDEN",
		"s3://bucket?session-token=HIDDEN",
		"s3://bucket?password=HIDDEN",
	}
	rapid.Check(t, func(t *rapid.T) {
		secret := "x" + rapid.StringMatching(`[A-Za-z0-9+/=%:]{8,40}`).Draw(t, "secret")
		form := rapid.SampledFrom(forms).Draw(t, "form")
		_, err := ParseURL(strings.ReplaceAll(form, "HIDDEN", secret))
		if err == nil {
			t.Fatal("accepted")
		}
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("the error repeats the secret: %v", err)
		}
		if !strings.Contains(secret, "%") && !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
			t.Fatalf("the error does not say where credentials belong: %v", err)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	good := Options{Bucket: "bucket", Region: "x", Credentials: StaticCredentials("a", "b", "")}
	for want, change := range map[string]func(*Options){
		"no credentials":                      func(o *Options) { o.Credentials = nil },
		"neither an endpoint nor a region":    func(o *Options) { o.Region = "" },
		"cannot be negative":                  func(o *Options) { o.StallTimeout = -1 },
		"read trusted certificates":           func(o *Options) { o.CAFile = "/does/not/exist" },
		"holds no certificate":                func(o *Options) { o.CAFile = "url_test.go" },
		`addressing "x" is neither "path" no`: func(o *Options) { o.Addressing = "x" },
	} {
		options := good
		change(&options)
		_, err := Open(options)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	store, err := Open(good)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
}
