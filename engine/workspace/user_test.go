package workspace

import (
	"os"
	"syscall"
	"testing"
)

// asUser does something as a user to whom permissions apply, which root is not.
func asUser(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	const nobody = 65534
	must(t, syscall.Setresuid(-1, nobody, -1)) // of all threads
	defer func() { must(t, syscall.Setresuid(-1, 0, -1)) }()
	do()
}
