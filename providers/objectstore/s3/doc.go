// Package s3 keeps objects in a bucket of any store that speaks S3: Amazon,
// Cloudflare R2, MinIO, Ceph, Google's interoperability endpoint, versitygw and
// others.
//
// Most programs need [ParseURL], [DefaultCredentials] and [Open].
//
// # What the store must be able to do
//
// Amazon gives all guarantees of the objectstore contract. Other stores are
// as good as their conditional puts: some check and then act, so that several
// of them win a race, and some ignore the condition. This package cannot see
// that from the answers; a repository probes its store when it is made.
// Listings must come in ascending byte order, which is checked.
//
// # Requests
//
// Get, Put, Stat and Delete are one request each, List is one for each 1000
// keys. There is a second one, a Get, when Stat finds nothing, since the first
// answer cannot tell an absent object from an absent bucket or account; and a
// Stat when Get is asked for the first bytes of an object that has none. The
// region is always known, so that nobody asks for it.
//
// Nothing is tried twice here, in particular not by minio-go: its own retry
// turns a put-if-absent that won, and whose answer was lost, into "exists
// already". Repeating is the work of whoever calls, and the errors say what
// may be repeated: ErrThrottled and ErrUnavailable, with the time that the
// store asked for in objectstore.Wait. A conflict with another conditional put
// (409) is ErrUnavailable: it does not tell which of the two won.
//
// # Uploads
//
// A Put is a single request of exact size, at most [MaxSize]: minio-go's
// multipart upload drops conditions. The body is read once for a checksum
// before the first byte is sent, so that one that cannot be read never reaches
// the store, and a second time for the request. The checksum travels in a
// header and not behind the body, which many stores do not understand; the
// store refuses a body that was damaged on the way. When Put has returned
// nothing reads the body any more.
//
// A lost answer of a put-if-absent is ErrUnavailable, and whoever repeats the
// call and is told ErrExist reads the object back, as the contract says.
//
// # Time
//
// A request must be answered within Options.Timeout, and for what it sends or
// receives there is one second more for each Options.MinRate bytes. Only time
// spent waiting for the store counts: a slow reader of a Get has all the time
// that it likes. A Get of which no byte arrives for Options.StallTimeout fails,
// and so, on Linux, does an upload of which the store acknowledges none for as
// long. All of these are ErrUnavailable.
//
// # Environment
//
// The package reads neither the environment nor files of its own accord, but
// for Options.CAFile. [DefaultCredentials] and [DefaultRegion] do, when they
// are called. Proxies are used only if Options.Proxy names them.
package s3
