// Package cloud keeps objects in Google Cloud Storage and in Azure Blob Storage,
// by their own protocols, with gocloud.dev/blob and the SDKs below it. It is a
// module of its own, so that the SDKs reach only programs that ask for them:
//
//	go get github.com/snapctl/snapctl/providers/objectstore/cloud
//
// Most programs need [OpenGCS] and [DefaultGoogleCredentials], or [OpenAzure] and
// [DefaultAzureCredentials]. Around the store belongs package transport of
// snapctl: nothing is tried twice here.
//
// # What the stores give
//
// Both give all four guarantees of the objectstore contract. Put-if-absent is
// ifGenerationMatch=0 at Google and If-None-Match: * at Azure. ETags are the
// number of the generation at Google, and Azure's own; both change with every
// put, also of the same content.
//
// Names in the bucket are the prefix and the key as they are, as in a bucket of
// S3, so that a repository can be copied by any tool.
//
// # Requests
//
// Get, Put, Stat and Delete are one request each, List is one for each 1000
// keys. There is a Stat more when Get is asked for the first bytes of an object
// that has none, and when a server says that an object is absent in words that
// are not those of the store.
//
// Both stores start a listing behind any key at no cost. Azure does so since
// version 2026-02-06 of its protocol (startFrom): a server that is older, or that
// ignores it, lists from the first key with the prefix. Listings are right even
// then, but need a request for each 1000 keys that are passed over. Azure's other
// way to start in the middle, markers, come from earlier listings only and are of
// no use here.
//
// The retries of the SDKs are switched off, also the one that Google's hides in
// its readers. The SDKs for credentials keep theirs: they ask other servers. The
// errors say what may be repeated: ErrThrottled and ErrUnavailable, with the time
// that the store asked for in objectstore.Wait. Google throttles more than about
// one put a second to the same key.
//
// # Uploads
//
// A Put is a single request, at Azure of at most [MaxAzureSize]. The body is read
// once for a checksum before the first byte is sent, so that one that cannot be
// read never reaches the store, and a second time for the request. The checksum,
// CRC32C at Google and MD5 at Azure, goes in front of the body; the store refuses
// a body that was damaged on the way. When Put has returned nothing reads the
// body any more. Nothing of it is kept in memory.
//
// A lost answer of a put-if-absent is ErrUnavailable, and whoever repeats the
// call and is told ErrExist reads the object back, as the contract says.
//
// # Time
//
// A request must be answered within Connection.Timeout, and for what it sends or
// receives there is one second more for each Connection.MinRate bytes. Only time
// spent waiting for the store counts: a slow reader of a Get has all the time
// that it likes. A Get of which no byte arrives for Connection.StallTimeout
// fails. All of these are ErrUnavailable. A stalled upload is noticed by package
// transport.
//
// # What goes through gocloud
//
// At Google puts, gets, deletes and listings, at Azure listings. gocloud writes
// some names in another way, among them keys: "a../b" and "a__0x2f__b". That would
// break the order of listings, and copies by other tools; so all names are set
// behind it, in its hooks, and where it has none the SDK is called directly: for
// Stat, which loses nothing by that, and for all of Azure but listings. Its puts
// to Azure would not do anyway: they do not tell the ETag of what they stored,
// and send no checksum.
//
// # Limits of Azure
//
// Accounts with a hierarchical namespace (Data Lake Storage) are refused when a
// listing shows one: they list in another order. By Azure's documentation a name
// has at most 254 components, and none of them should end with a dot; keys of
// repositories do neither, but objectstore.ValidKey would let them.
//
// # Environment
//
// The package reads neither the environment nor files of its own accord, but for
// Connection.CAFile. [DefaultGoogleCredentials] and [DefaultAzureCredentials] do,
// when they are called. Proxies are used only if Connection.Proxy names them. The
// SDKs look at variables of their own that switch tracing on; none of those
// changes what is asked, where, and with which credentials.
package cloud
