package explore

import (
	cryptorand "crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/cryptotest"
)

// random is the source of all randomness while a scenario is explored. Before each
// step of an actor it begins anew, from the actor's name and the number of the step.
// So what an actor draws depends on its own history only, and not on what others
// drew meanwhile: the same session, salt or pack has the same name in all schedules
// that show the actor the same, which is what lets states meet.
type random struct {
	mu     sync.Mutex // guards source
	source *rand.ChaCha8
}

// newRandom takes the place of crypto/rand.Reader until the test ends.
func newRandom(t *testing.T) *random {
	cryptotest.SetGlobalRandom(t, 0) // for its clean-up, and its refusal of parallel tests
	r := new(random)
	r.begin("", 0)
	cryptorand.Reader = r
	return r
}

func (r *random) begin(actor string, step int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.source = rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d %s", step, actor)))
}

// Read implements io.Reader.
func (r *random) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Read(b)
}
