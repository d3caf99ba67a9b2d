package cloud

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// AzureOptions say which container of Azure Blob Storage a Store uses, and how.
// Account, Container and Credentials are required.
type AzureOptions struct {
	Account   string // the storage account
	Container string
	// Prefix is put before all keys, with a slash between. Empty uses the
	// whole container. It has the bytes of keys, and at most MaxPrefix of them.
	Prefix string
	// Endpoint is the whole address of the account: of another cloud, such as
	// https://ACCOUNT.blob.core.usgovcloudapi.net, or of an emulator,
	// http://127.0.0.1:10000/ACCOUNT. Empty is https://ACCOUNT.blob.core.windows.net.
	Endpoint string
	// Credentials sign the requests. See AzureSharedKey, AzureSignature,
	// AzureTokens, DefaultAzureCredentials and AnonymousAzure.
	Credentials *AzureCredentials
	Connection  Connection
}

var (
	azureAccountName   = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	azureContainerName = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`)
)

func (o AzureOptions) validate() error {
	if !azureAccountName.MatchString(o.Account) {
		return fmt.Errorf("%q is no name of a storage account", o.Account)
	}
	if len(o.Container) > 63 || !azureContainerName.MatchString(o.Container) {
		return fmt.Errorf("%q is no name of a container", o.Container)
	}
	if o.Credentials == nil {
		return errors.New("no credentials are given")
	}
	return errors.Join(validPrefix(o.Prefix), o.Connection.validate())
}

// OpenAzure prepares a store in a container of Azure Blob Storage. It sends no
// request: what is wrong with the container or the credentials shows with the
// first call.
func OpenAzure(ctx context.Context, options AzureOptions) (*Store, error) {
	store, err := openAzure(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open container azblob://%s/%s: %w", options.Account, options.Container, err)
	}
	return store, nil
}

func openAzure(ctx context.Context, o AzureOptions) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Connection = o.Connection.withDefaults()
	transport, err := newTransport(o.Connection)
	if err != nil {
		return nil, err
	}
	return connectAzure(ctx, o, transport)
}

func connectAzure(ctx context.Context, o AzureOptions, transport *http.Transport) (*Store, error) {
	if o.Endpoint == "" {
		o.Endpoint = "https://" + o.Account + ".blob.core.windows.net"
	}
	endpoint, err := parseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	native, err := o.Credentials.client(o.Account, endpoint.JoinPath(o.Container), &container.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			Transport: newClient(&exchange{next: transport, patience: o.Connection.patience()}),
			Retry:     policy.RetryOptions{MaxRetries: -1}, // none
		},
	})
	if err != nil {
		return nil, err
	}
	bucket, err := azureblob.OpenBucket(ctx, native, nil)
	if err != nil {
		return nil, err
	}
	return &Store{
		service:   &azure{bucket: bucket, native: native},
		transport: transport,
		place:     newPlace("azblob://"+o.Account+"/"+o.Container, o.Prefix, endpoint.Host),
	}, nil
}

// azure is a container of Azure Blob Storage. Only listings go through gocloud:
// it would rewrite some names that are keys, and has no hooks for them here; and
// its puts do not say which ETag they made. See the package comment.
type azure struct {
	bucket *blob.Bucket
	native *container.Client
}

func (a *azure) put(ctx context.Context, name string, content *upload, opts objectstore.PutOptions) (objectstore.Info, error) {
	condition, err := azureCondition(opts)
	if err != nil {
		return objectstore.Info{}, err
	}
	resp, err := a.native.NewBlockBlobClient(name).Upload(ctx, content, &blockblob.UploadOptions{
		TransactionalValidation: azblob.TransferValidationTypeMD5(content.sum),
		HTTPHeaders:             &azblob.HTTPHeaders{BlobContentType: new(contentType), BlobCacheControl: new(cacheControl)},
		AccessConditions:        &azblob.AccessConditions{ModifiedAccessConditions: condition},
	})
	if err != nil {
		return objectstore.Info{}, err
	}
	return azureInfo(name, content.size, resp.ETag, resp.LastModified), nil
}

// azureCondition is the condition of a put.
func azureCondition(opts objectstore.PutOptions) (*azblob.ModifiedAccessConditions, error) {
	switch {
	case opts.IfAbsent:
		return &azblob.ModifiedAccessConditions{IfNoneMatch: new(azcore.ETagAny)}, nil
	case opts.IfMatch == "":
		return nil, nil
	case strings.ContainsFunc(opts.IfMatch, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }):
		return nil, errOtherVersion
	}
	return &azblob.ModifiedAccessConditions{IfMatch: new(azcore.ETag(`"` + opts.IfMatch + `"`))}, nil
}

func (a *azure) get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	resp, err := a.native.NewBlobClient(name).DownloadStream(ctx, &azblob.DownloadStreamOptions{
		Range: azblob.HTTPRange{Offset: offset, Count: length},
	})
	return resp.Body, err
}

func (a *azure) stat(ctx context.Context, name string) (objectstore.Info, error) {
	resp, err := a.native.NewBlobClient(name).GetProperties(ctx, nil)
	if err != nil {
		return objectstore.Info{}, err
	}
	if resp.ContentLength == nil {
		return objectstore.Info{}, wrongAnswer("answer has no Content-Length")
	}
	return azureInfo(name, *resp.ContentLength, resp.ETag, resp.LastModified), nil
}

func (a *azure) delete(ctx context.Context, name string) error {
	_, err := a.native.NewBlobClient(name).Delete(ctx, nil)
	return err
}

func (a *azure) pages(prefix, from string) (*blob.Bucket, *blob.ListOptions) {
	return a.bucket, &blob.ListOptions{BeforeList: func(as func(any) bool) error {
		var options *container.ListBlobsHierarchyOptions
		if !as(&options) {
			return errHook
		}
		options.Prefix = &prefix
		if from != "" {
			options.StartFrom = &from
		}
		return nil
	}}
}

func (a *azure) listed(page []*blob.ListObject) ([]objectstore.Info, error) {
	infos := make([]objectstore.Info, len(page))
	for i, object := range page {
		var item container.BlobItem
		if !object.As(&item) {
			return nil, errHook
		}
		if item.Name == nil || item.Properties == nil || item.Properties.ContentLength == nil {
			return nil, wrongAnswer("listing has an object without name or size")
		}
		if kind := item.Properties.ResourceType; kind != nil && *kind == "directory" {
			return nil, wrongAnswer("the account has a hierarchical namespace, which lists in another order")
		}
		p := item.Properties
		infos[i] = azureInfo(*item.Name, *p.ContentLength, p.ETag, p.LastModified)
	}
	return infos, nil
}

// azureInfo takes the quotation marks off an ETag: listings have none.
func azureInfo(name string, size int64, etag *azcore.ETag, modified *time.Time) objectstore.Info {
	info := objectstore.Info{Key: name, Size: size}
	if etag != nil {
		info.ETag = strings.Trim(string(*etag), `"`)
	}
	if modified != nil {
		info.ModTime = *modified
	}
	return info
}

func (a *azure) sum() checksum { return md5.New() }

// MaxAzureSize is the largest body of a Put in bytes: what Azure takes in one
// request.
const MaxAzureSize = 5000 << 20

func (a *azure) maxSize() int64 { return MaxAzureSize }

// joinQuery adds a query that is not to be parsed and put together anew.
func joinQuery(u *url.URL, query string) string {
	if query == "" {
		return u.String()
	}
	return u.String() + "?" + query
}
