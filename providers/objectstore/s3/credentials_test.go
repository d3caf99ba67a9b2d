package s3

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// clinic hands out keys that last an hour and should be renewed after 48
// minutes.
type clinic struct {
	given   int
	renewAt time.Time
	err     error
}

func (c *clinic) retrieve(ctx context.Context) (credentials.Value, error) {
	if c.err != nil {
		return credentials.Value{}, errors.Join(c.err, ctx.Err())
	}
	c.given++
	c.renewAt = time.Now().Add(48 * time.Minute)
	return credentials.Value{
		AccessKeyID:     "key" + string(rune('0'+c.given)),
		SecretAccessKey: "secret",
		SessionToken:    "token",
		Expiration:      time.Now().Add(time.Hour),
		SignerType:      credentials.SignatureV4,
	}, nil
}

func (c *clinic) stale() bool { return !time.Now().Before(c.renewAt) }

// TestCredentialsAreRenewed watches which key signs the requests of a store
// over hours.
func TestCredentialsAreRenewed(t *testing.T) {
	var signed string
	expired := ""
	handler := func(w http.ResponseWriter, r *http.Request) {
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		signed, _, _ = strings.Cut(rest, "/")
		if signed == expired {
			refuse(w, http.StatusBadRequest, "ExpiredToken", "x")
			return
		}
		serve(w, "content")
	}
	from := &clinic{}
	inBubbleWith(t, from, handler, func(t *testing.T, s *Store) {
		want := func(key string, err error) {
			t.Helper()
			if err != nil || signed != key {
				t.Errorf("after %v: signed with %s, %v, want %s", time.Now(), signed, err, key)
			}
		}
		read := func() error { return get(t.Context(), s, objectstore.Range{}) }
		want("key1", read())
		time.Sleep(47 * time.Minute)
		want("key1", read())
		time.Sleep(2 * time.Minute)
		want("key2", read())

		from.err = errors.New("service is away")
		time.Sleep(55 * time.Minute)
		want("key2", read()) // they hold an hour
		time.Sleep(10 * time.Minute)
		wantFailure(t, read(), opGet, objectstore.ErrDenied, "no credentials: service is away")
		from.err = nil
		want("key3", read())

		expired = "key3" // the store's clock is ahead
		wantFailure(t, read(), opGet, objectstore.ErrDenied, "expired")
		want("key4", read())
	})
}

func TestCredentialsHonourTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials(&clinic{})
		<-c.slot // as if somebody else waited for their service
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get while another one waits: %v", err)
		}
	})
}

// awsHome gives the process an empty environment and these files in ~/.aws.
func awsHome(t *testing.T, files map[string]string) {
	t.Helper()
	home := t.TempDir()
	for _, name := range os.Environ() {
		if name, _, _ = strings.Cut(name, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("HOME", home)
	// Instead of a virtual machine's service, a port where nobody listens.
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/")
	for name, text := range files {
		path := filepath.Join(home, ".aws", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	awsCredentials = "[default]\naws_access_key_id=fileKey\naws_secret_access_key=s\n[work]\naws_access_key_id=workKey\naws_secret_access_key=s\naws_session_token=t\n[half]\naws_access_key_id=x\n"
	awsConfig      = "[default]\nregion=eu-north-1\n[profile work]\nregion=eu-west-3\n[profile script]\ncredential_process=cat CREDENTIALS\n[profile role]\nrole_arn=arn:x\n"
)

func TestDefaultCredentials(t *testing.T) {
	files := map[string]string{"credentials": awsCredentials, "config": awsConfig}
	for _, test := range []struct {
		name    string
		profile string
		env     map[string]string
		files   map[string]string
		want    string // access key, or
		refused string
	}{
		{name: "environment", env: map[string]string{"AWS_ACCESS_KEY_ID": "envKey", "AWS_SECRET_ACCESS_KEY": "s"}, files: files, want: "envKey"},
		{name: "half an environment", env: map[string]string{"AWS_ACCESS_KEY_ID": "envKey"}, files: files, refused: "environment: one of access key and secret key is missing"},
		{name: "default profile", files: files, want: "fileKey"},
		{name: "AWS_PROFILE", env: map[string]string{"AWS_PROFILE": "work"}, files: files, want: "workKey"},
		{name: "unknown AWS_PROFILE", env: map[string]string{"AWS_PROFILE": "wrok"}, files: files, refused: "profile wrok"},
		{name: "profile before environment", profile: "work", env: map[string]string{"AWS_ACCESS_KEY_ID": "envKey", "AWS_SECRET_ACCESS_KEY": "s"}, files: files, want: "workKey"},
		{name: "unknown profile", profile: "wrok", files: files, refused: "profile wrok"},
		{name: "half a profile", profile: "half", files: files, refused: "partial"},
		{name: "profile with a role", profile: "role", files: files, refused: "profile role: no keys there"},
		{name: "nothing", refused: "services of this machine"},
		{name: "file without default", files: map[string]string{"credentials": "[other]\n"}, refused: "services of this machine"},
		{name: "broken file", files: map[string]string{"credentials": "[default\n"}, refused: "profile default"},
	} {
		t.Run(test.name, func(t *testing.T) {
			awsHome(t, test.files)
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			c := DefaultCredentials(test.profile)
			value, err := c.get(t.Context())
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("%v, want %q in it", err, test.refused)
				}
				return
			}
			if err != nil || value.AccessKeyID != test.want {
				t.Fatalf("%+v, %v, want key %s", value, err, test.want)
			}
			if again, err := c.get(t.Context()); err != nil || again != value {
				t.Errorf("keys without an end are fetched twice: %v", err)
			}
		})
	}
}

func TestCredentialProcess(t *testing.T) {
	awsHome(t, nil)
	output := filepath.Join(t.TempDir(), "output")
	text := `{"Version":1,"AccessKeyId":"scriptKey","SecretAccessKey":"s"}`
	if err := os.WriteFile(output, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(awsConfig, "CREDENTIALS", output)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", config)
	c := DefaultCredentials("script")
	value, err := c.get(t.Context())
	if err != nil || value.AccessKeyID != "scriptKey" {
		t.Fatalf("%+v, %v", value, err)
	}
	if err := os.Remove(output); err != nil {
		t.Fatal(err)
	}
	if _, err := c.get(t.Context()); err != nil {
		t.Errorf("a process whose keys have no end runs again: %v", err)
	}
}

func TestDefaultRegion(t *testing.T) {
	files := map[string]string{"config": awsConfig}
	for _, test := range []struct {
		profile string
		env     map[string]string
		files   map[string]string
		want    string
	}{
		{"", nil, files, "eu-north-1"},
		{"work", nil, files, "eu-west-3"},
		{"", map[string]string{"AWS_PROFILE": "work"}, files, "eu-west-3"},
		{"work", map[string]string{"AWS_REGION": "r1", "AWS_DEFAULT_REGION": "r2"}, files, "r1"},
		{"", map[string]string{"AWS_DEFAULT_REGION": "r2"}, nil, "r2"},
		{"", nil, nil, ""},
		{"unknown", nil, files, ""},
	} {
		t.Run(test.profile, func(t *testing.T) {
			awsHome(t, test.files)
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			if got := DefaultRegion(test.profile); got != test.want {
				t.Errorf("profile %q, %v: %q, want %q", test.profile, test.env, got, test.want)
			}
		})
	}
}

func TestMissingFilesAreNoKeys(t *testing.T) {
	err := explainPlace(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist})
	if !errors.Is(err, errNothingThere) {
		t.Error(err)
	}
}

func TestStaticCredentialsNeedBoth(t *testing.T) {
	for _, c := range []*Credentials{StaticCredentials("", "s", ""), StaticCredentials("a", "", "")} {
		if _, err := c.get(t.Context()); err == nil {
			t.Error("half a key pair is accepted")
		}
	}
}
