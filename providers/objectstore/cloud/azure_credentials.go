package cloud

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"cloud.google.com/go/auth"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// AzureCredentials sign requests to Azure. They are safe for concurrent use, by
// several stores too; make them with AzureSharedKey, AzureSignature, AzureTokens,
// DefaultAzureCredentials or AnonymousAzure.
type AzureCredentials struct {
	client func(account string, at *url.URL, options *container.ClientOptions) (*container.Client, error)
}

// AzureSharedKey is one of the two keys of the account, in base64 as the portal
// shows it.
func AzureSharedKey(key string) *AzureCredentials {
	return &AzureCredentials{func(account string, at *url.URL, options *container.ClientOptions) (*container.Client, error) {
		shared, err := container.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, errors.New("the shared key is not in base64") // the cause repeats some of it
		}
		return container.NewClientWithSharedKeyCredential(at.String(), shared, options)
	}}
}

// AzureSignature is a shared access signature (SAS): "sv=...&sig=...". It must
// allow to read, write, create, delete and list.
func AzureSignature(token string) *AzureCredentials {
	return &AzureCredentials{func(_ string, at *url.URL, options *container.ClientOptions) (*container.Client, error) {
		return container.NewClientWithNoCredential(joinQuery(at, strings.TrimPrefix(token, "?")), options)
	}}
}

// AzureTokens are the tokens of Microsoft Entra ID, however they are got. They
// are sent over TLS only.
func AzureTokens(tokens azcore.TokenCredential) *AzureCredentials {
	return &AzureCredentials{func(_ string, at *url.URL, options *container.ClientOptions) (*container.Client, error) {
		return container.NewClient(at.String(), markedTokens{tokens}, options)
	}}
}

// DefaultAzureCredentials looks for credentials where Azure's own tools do: in
// the environment (AZURE_CLIENT_ID and others), the identity of a workload or of
// the machine, and those of its command-line tools.
func DefaultAzureCredentials() (*AzureCredentials, error) {
	found, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return AzureTokens(found), nil
}

// AnonymousAzure signs nothing: for reading public containers.
func AnonymousAzure() *AzureCredentials { return AzureSignature("") }

// markedTokens tells errors of getting a token from those of a request.
type markedTokens struct{ tokens azcore.TokenCredential }

func (m markedTokens) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := m.tokens.GetToken(ctx, options)
	if err != nil {
		return token, &credentialError{err}
	}
	return token, nil
}

// tokenStatus is the HTTP status with which a server of tokens refused, or 0.
func tokenStatus(err error) int {
	var google *auth.Error
	var microsoft *azidentity.AuthenticationFailedError
	var response *http.Response
	switch {
	case errors.As(err, &google):
		response = google.Response
	case errors.As(err, &microsoft):
		response = microsoft.RawResponse
	}
	if response == nil {
		return 0
	}
	return response.StatusCode
}
