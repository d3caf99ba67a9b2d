package cloud

import (
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// azureCodes are the errors of Azure that mean something else to callers than
// their status says.
var azureCodes = map[bloberror.Code]error{
	bloberror.BlobNotFound: objectstore.ErrNotExist,

	bloberror.ContainerNotFound:     ErrNoBucket,
	bloberror.ContainerBeingDeleted: ErrNoBucket,
	bloberror.ContainerDisabled:     ErrNoBucket,
	bloberror.ResourceNotFound:      ErrNoBucket, // what strangers are told of a container
	bloberror.AccountBeingCreated:   objectstore.ErrUnavailable,
	"PublicAccessNotPermitted":      objectstore.ErrDenied, // 409

	bloberror.BlobAlreadyExists:        objectstore.ErrPrecondition, // 409, to If-None-Match
	bloberror.ConditionNotMet:          objectstore.ErrPrecondition,
	bloberror.TargetConditionNotMet:    objectstore.ErrPrecondition,
	bloberror.BlobImmutableDueToPolicy: objectstore.ErrDenied, // 409

	bloberror.ServerBusy: objectstore.ErrThrottled, // 503

	// The body was damaged on the way; it is whole where it comes from.
	bloberror.MD5Mismatch: objectstore.ErrUnavailable,

	bloberror.LeaseIDMissing: nil, // 412: somebody has locked the object
	bloberror.BlobArchived:   nil, // 409
}

// azureHints say what to do about an error.
var azureHints = map[bloberror.Code]string{
	bloberror.AuthenticationFailed: "is it the key of this account, or a signature that has not expired? is the clock of this machine right?",
	bloberror.LeaseIDMissing:       "somebody holds a lease of the object",
	bloberror.BlobArchived:         "the object is archived and has to be made hot first; repositories cannot live in the archive tier",
	"InvalidHeaderValue":           "the server may be older than the version of the protocol that this program speaks",
}

// read implements service. The code is in a header, since an answer to HEAD has
// no body.
func (a *azure) read(_ string, c *call) answer {
	said := parseXML(c.problem)
	if code := c.header.Get("x-ms-error-code"); code != "" {
		said.code = code
	}
	if said.code == "" {
		said.message = string(c.problem)
	}
	said.request = c.header.Get("x-ms-request-id")
	said.hint = azureHints[bloberror.Code(said.code)]
	sentinel, known := azureCodes[bloberror.Code(said.code)]
	if !known {
		sentinel = sentinelOf(c.status)
	}
	said.sentinel = sentinel
	return said
}
