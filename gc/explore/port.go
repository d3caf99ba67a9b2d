package explore

import (
	"bytes"
	"context"
	"io"
	"iter"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// port is a store whose calls are values: it turns each into a request, has it
// answered by ask, and turns the reply into what the contract says.
type port struct {
	ask func(ctx context.Context, r request) (reply, error)

	page int

	mu      *sync.Mutex // guards objects
	objects *objects
}

func failed(op op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &objectstore.Error{Op: op.String(), Key: name, Err: err}
}

// do makes a request about one object.
func (p *port) do(ctx context.Context, name string, r request) (reply, error) {
	err := ctx.Err()
	if err == nil {
		err = objectstore.ValidKey(name)
	}
	var answer reply
	if err == nil {
		r.key = p.number(name)
		answer, err = p.ask(ctx, r)
	}
	return answer, failed(r.op, name, err)
}

// Put implements objectstore.Store.
func (p *port) Put(ctx context.Context, name string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if err := opts.Validate(); err != nil {
		return objectstore.Info{}, failed(opPut, name, err)
	}
	data := make([]byte, body.Size())
	_, err := io.ReadFull(io.NewSectionReader(body, 0, body.Size()), data)
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return objectstore.Info{}, failed(opPut, name, err)
	}
	p.mu.Lock()
	r := request{op: opPut, options: opts, content: p.objects.content(data)}
	p.mu.Unlock()
	answer, err := p.do(ctx, name, r)
	if err != nil {
		return objectstore.Info{}, err
	}
	return p.info(p.number(name), answer.content), nil
}

// Get implements objectstore.Store. The one call reads the whole part.
func (p *port) Get(ctx context.Context, name string, part objectstore.Range) (io.ReadCloser, error) {
	answer, err := p.do(ctx, name, request{op: opGet, part: part})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	data := p.objects.contents[answer.content]
	p.mu.Unlock()
	if part, err = part.Within(int64(len(data))); err != nil {
		return nil, failed(opGet, name, err)
	}
	return io.NopCloser(bytes.NewReader(data[part.Offset : part.Offset+part.Length])), nil
}

// Stat implements objectstore.Store.
func (p *port) Stat(ctx context.Context, name string) (objectstore.Info, error) {
	answer, err := p.do(ctx, name, request{op: opStat})
	if err != nil {
		return objectstore.Info{}, err
	}
	return p.info(p.number(name), answer.content), nil
}

// Delete implements objectstore.Store.
func (p *port) Delete(ctx context.Context, name string) error {
	_, err := p.do(ctx, name, request{op: opDelete})
	return err
}

// List implements objectstore.Store. Each page is a call, so that others can act
// between two, and is not asked for before it is needed.
func (p *port) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		err := p.list(ctx, prefix, after, func(info objectstore.Info) bool { return yield(info, nil) })
		if err != nil {
			yield(objectstore.Info{}, failed(opList, prefix, err))
		}
	}
}

func (p *port) list(ctx context.Context, prefix, after string, yield func(objectstore.Info) bool) error {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		answer, err := p.ask(ctx, request{op: opList, key: p.number(prefix), after: after, page: p.page})
		if err != nil {
			return err
		}
		for _, c := range decodeCells(answer.listing) {
			info := p.info(c.key, c.content)
			if !yield(info) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			after = info.Key
		}
		more = answer.more
	}
	return ctx.Err()
}

func (p *port) number(name string) key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.objects.key(name)
}

func (p *port) info(k key, c content) objectstore.Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.objects.info(cell{k, c})
}
