package fault

import "strings"

// Nth applies a fault to the nth call, counted from 1 over all kinds.
func Nth(n int, f Fault) Injector {
	return func(op Op) Fault {
		if op.N == n {
			return f
		}
		return Fault{}
	}
}

// FailNth makes the nth call fail with err before it does anything.
func FailNth(n int, err error) Injector { return Nth(n, Fail(err)) }

// LoseAckNth makes the nth call do its work and then fail with ErrInjected.
func LoseAckNth(n int) Injector { return Nth(n, LoseAck(ErrInjected)) }

// FailFrom makes the nth call and all later ones fail with err, as if the
// store were gone or the process dead.
func FailFrom(n int, err error) Injector {
	return func(op Op) Fault {
		if op.N >= n {
			return Fail(err)
		}
		return Fault{}
	}
}

// On applies a fault to every call of one kind whose key starts with prefix.
func On(kind Kind, prefix string, f Fault) Injector {
	return func(op Op) Fault {
		if op.Kind == kind && strings.HasPrefix(op.Key, prefix) {
			return f
		}
		return Fault{}
	}
}
