package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// DefaultCredentials looks for credentials where Amazon's tools do, when they
// are first needed:
//
//  1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN,
//  2. the profile AWS_PROFILE, or default, in the files ~/.aws/config and
//     ~/.aws/credentials: keys, credential_process, or a session of aws sso login,
//  3. a web identity token (AWS_WEB_IDENTITY_TOKEN_FILE), the service of a
//     container (AWS_CONTAINER_CREDENTIALS_...), and that of a virtual machine.
//
// If profile is not empty, only that profile is looked at. A place that holds
// half of what is needed is an error, not skipped. Roles to be assumed
// (role_arn) are not supported in files; credential_process can do that.
func DefaultCredentials(profile string) *Credentials {
	client := &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{ // no proxy: these services are near
			DialContext:       (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
			DisableKeepAlives: true,
		},
	}
	files := &place{
		name:     "profile " + profileName(profile),
		provider: &credentials.FileAWSCredentials{Profile: profile},
		client:   client,
		required: profile != "" || os.Getenv("AWS_PROFILE") != "",
	}
	if profile != "" {
		return newCredentials(&places{list: []*place{files}})
	}
	return newCredentials(&places{list: []*place{
		{name: "environment", provider: &credentials.EnvAWS{}, client: client},
		files,
		{name: "services of this machine", provider: &credentials.IAM{Client: client}, client: client, required: true},
	}})
}

func profileName(profile string) string {
	return cmp.Or(profile, os.Getenv("AWS_PROFILE"), "default")
}

// places asks one place after the other, and stays with the one that knew.
type places struct {
	list   []*place
	source credentials.Provider
	kept   credentials.Value
}

// place is one of the places to look at.
type place struct {
	name     string
	provider credentials.Provider
	client   *http.Client
	required bool // the last resort: it has no right to know nothing
}

func (p *places) retrieve(ctx context.Context) (credentials.Value, error) {
	var nothing []string
	for _, place := range p.list {
		value, err := place.look(ctx)
		if err == nil {
			p.source, p.kept = place.provider, value
			return value, nil
		}
		if ctx.Err() != nil {
			return credentials.Value{}, ctx.Err()
		}
		nothing = append(nothing, place.name+": "+err.Error())
		if place.required || !errors.Is(err, errNothingThere) {
			break
		}
	}
	return credentials.Value{}, errors.New(strings.Join(nothing, "; "))
}

// stale asks the place itself, except about keys without an end: a provider
// for files calls those expired at once.
func (p *places) stale() bool { return !p.kept.Expiration.IsZero() && p.source.IsExpired() }

var errNothingThere = errors.New("no keys there")

func (p *place) look(ctx context.Context) (credentials.Value, error) {
	value, err := p.provider.RetrieveWithCredContext(&credentials.CredContext{Client: p.client, Context: ctx})
	hasKey, hasSecret := value.AccessKeyID != "", value.SecretAccessKey != ""
	switch {
	case err != nil:
		return credentials.Value{}, explainPlace(err)
	case hasKey && hasSecret:
		return value, nil
	case hasKey || hasSecret:
		return credentials.Value{}, errors.New("one of access key and secret key is missing")
	}
	return credentials.Value{}, errNothingThere
}

func explainPlace(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errNothingThere, err)
	}
	if strings.Contains(err.Error(), "does not exist") { // a section, in the words of the parser
		return fmt.Errorf("%w: %w", errNothingThere, err)
	}
	return err
}

// DefaultRegion is the region that Amazon's tools would use: AWS_REGION,
// AWS_DEFAULT_REGION, or that of the profile in ~/.aws/config. Empty if there
// is none. An empty profile is AWS_PROFILE, or default.
func DefaultRegion(profile string) string {
	if region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")); region != "" {
		return region
	}
	path := os.Getenv("AWS_CONFIG_FILE")
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		path = filepath.Join(home, ".aws", "config")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return configuredRegion(string(text), profileName(profile))
}

// configuredRegion finds a profile's region in a config file: sections are
// [default] and [profile NAME].
func configuredRegion(text, profile string) string {
	want := "[profile " + profile + "]"
	inProfile := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			inProfile = line == want || profile == "default" && line == "[default]"
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		if inProfile && strings.TrimSpace(name) == "region" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
