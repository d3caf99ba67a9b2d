// Package fetch turns blob ids into bytes.
//
// A [Fetcher] asks a [Locator] which frame of which pack holds a blob, reads
// the frame, opens it and checks that the blob has its id before it gives its
// bytes away. [Fetcher.Node] and [Fetcher.Blob] answer for one blob and keep
// decoded frames for its neighbours, which are mostly wanted next.
// [Fetcher.Blobs] answers for many: it reads each frame once, neighbouring
// frames in one request.
//
// A blob may be stored more than once. A copy that is damaged or gone is no
// error while another copy is good.
//
// Memory is bounded: the cache by Config.CacheBytes, a bulk read by one sealed
// and one decoded frame for each worker, and 80 bytes for each id asked for.
package fetch
