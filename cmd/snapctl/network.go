package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// networkOptions say how a repository at the end of a network is used.
type networkOptions struct {
	uploadLimit   string
	downloadLimit string
	cacheSize     string
	verifyUploads bool
}

const defaultCacheSize = "4G"

func (o *networkOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.uploadLimit, "limit-upload", "", "send at most this many `bytes` a second to a bucket, such as 10M")
	f.StringVar(&o.downloadLimit, "limit-download", "", "receive at most this many `bytes` a second from a bucket")
	f.BoolVar(&o.verifyUploads, "verify-uploads", false, "ask the store for each new pack before a snapshot is published")
	f.StringVar(&o.cacheSize, "cache-size", defaultCacheSize, "keep at most this many `bytes` of a bucket's packs in the state directory, twice: data and directories; 0 keeps none")
}

// check refuses values that mean nothing, before anything is done.
func (o *networkOptions) check() error {
	_, _, err := o.limits()
	if err == nil {
		_, err = o.cacheBytes()
	}
	return err
}

func (o *networkOptions) limits() (upload, download int64, err error) {
	if upload, err = parseLimit("--limit-upload", o.uploadLimit); err != nil {
		return 0, 0, err
	}
	download, err = parseLimit("--limit-download", o.downloadLimit)
	return upload, download, err
}

// minLimit is what a transfer needs to end at all: at less than a few KiB a second,
// shared by a few packs, a store is given up as stalled.
const minLimit = 16 << 10

func parseLimit(option, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := parseSize(text)
	if err == nil && n < minLimit {
		err = fmt.Errorf("%s is too little: packs need 16K", text)
	}
	if err != nil {
		return 0, &usageError{err: fmt.Errorf("%s: %w", option, err), hint: "write a number of bytes a second, such as 500K or 10M"}
	}
	return n, nil
}

// minCache is what a cache needs to be one.
const minCache = 256 << 20

func (o *networkOptions) cacheBytes() (int64, error) {
	n, err := parseSize(o.cacheSize)
	if err == nil && n != 0 && n < minCache {
		err = fmt.Errorf("%s is too little: a cache needs 256M", o.cacheSize)
	}
	if err != nil {
		return 0, &usageError{err: fmt.Errorf("--cache-size: %w", err), hint: "write a number of bytes such as 4G, or 0"}
	}
	return n, nil
}

// parseSize reads a number of bytes: 123, 10K, 1.5M, 4GiB; units are powers of
// 1024.
func parseSize(text string) (int64, error) {
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text), "B"), "I")
	shift := 0
	if n := len(number); n > 0 {
		if unit := strings.IndexByte("KMGTP", number[n-1]); unit >= 0 {
			shift, number = 10*(unit+1), number[:n-1]
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !(value >= 0) {
		return 0, fmt.Errorf("%q is not a number of bytes", text)
	}
	if value *= float64(int64(1) << shift); value >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is too many bytes", text)
	}
	return int64(value), nil
}
