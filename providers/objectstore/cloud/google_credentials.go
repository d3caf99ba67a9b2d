package cloud

import (
	"context"
	"errors"
	"net/http"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
)

// GoogleCredentials sign requests to Google. They are kept until shortly before
// they expire, and then fetched anew. They are safe for concurrent use, by
// several stores too; make them with DefaultGoogleCredentials,
// GoogleServiceAccount, GoogleTokens or AnonymousGoogle.
type GoogleCredentials struct {
	tokens auth.TokenProvider // nil for none
	slot   chan struct{}      // holds one token: whoever has it may ask for tokens, so that others wait with their contexts
}

// googleScope is what a store does: it reads and writes objects.
const googleScope = "https://www.googleapis.com/auth/devstorage.read_write"

// DefaultGoogleCredentials looks for credentials where Google's own tools do: in
// the file that GOOGLE_APPLICATION_CREDENTIALS names, in that of gcloud, and at
// the machine's metadata server. Client fetches tokens; nil is the SDK's own,
// which takes proxies from the environment.
func DefaultGoogleCredentials(client *http.Client) (*GoogleCredentials, error) {
	found, err := credentials.DetectDefault(detectOptions(client))
	if err != nil {
		return nil, err
	}
	return GoogleTokens(found), nil
}

// GoogleServiceAccount are the credentials in a key file of a service account,
// in JSON. For client see DefaultGoogleCredentials.
func GoogleServiceAccount(key []byte, client *http.Client) (*GoogleCredentials, error) {
	found, err := credentials.NewCredentialsFromJSON(credentials.ServiceAccount, key, detectOptions(client))
	if err != nil {
		return nil, err
	}
	return GoogleTokens(found), nil
}

func detectOptions(client *http.Client) *credentials.DetectOptions {
	return &credentials.DetectOptions{
		Scopes:              []string{googleScope},
		Client:              client,
		DisableAsyncRefresh: true, // whoever needs a token waits for it: no goroutine is left behind
	}
}

// GoogleTokens are credentials from anywhere else. The provider keeps tokens as
// long as they are valid (auth.NewCachedTokenProvider does); it is never called
// from two goroutines at once.
func GoogleTokens(provider auth.TokenProvider) *GoogleCredentials {
	c := &GoogleCredentials{tokens: provider, slot: make(chan struct{}, 1)}
	c.slot <- struct{}{}
	return c
}

// AnonymousGoogle signs nothing: for emulators, and for reading public buckets.
func AnonymousGoogle() *GoogleCredentials { return &GoogleCredentials{} }

// authorize adds a token to a request.
func (c *GoogleCredentials) authorize(req *http.Request) error {
	if c.tokens == nil {
		return nil
	}
	token, err := c.token(req.Context())
	if err != nil {
		return &credentialError{err}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

func (c *GoogleCredentials) token(ctx context.Context) (string, error) {
	select {
	case <-c.slot:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { c.slot <- struct{}{} }()
	token, err := c.tokens.Token(ctx)
	switch {
	case err != nil:
		return "", err
	case token == nil || token.Value == "":
		return "", errors.New("the token is empty")
	}
	return token.Value, nil
}
