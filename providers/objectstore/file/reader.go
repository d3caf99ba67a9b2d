package file

import (
	"context"
	"io"
	"os"
)

// reader reads a part of an object by ReadAt, so that it needs no seek and
// knows how much must still come.
type reader struct {
	ctx    context.Context
	key    string
	file   *os.File
	offset int64
	left   int64
}

// Read fails with io.ErrUnexpectedEOF if the file became shorter after it was
// opened, which nothing in this package does to an object.
func (r *reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if err := r.ctx.Err(); err != nil {
		return 0, failed("get", r.key, err)
	}
	n, err := r.file.ReadAt(p[:min(int64(len(p)), r.left)], r.offset)
	r.offset += int64(n)
	r.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return n, failed("get", r.key, err)
	}
	return n, nil
}

func (r *reader) Close() error {
	if err := r.file.Close(); err != nil {
		return failed("get", r.key, err)
	}
	return nil
}
