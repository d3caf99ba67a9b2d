package fuzz_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/packfile/blob"
)

// FuzzPolicy reads arbitrary texts as policies of retention. What is read makes
// sense and can be applied; what is not is refused with a line that there is.
// Lines that say nothing change nothing.
func FuzzPolicy(f *testing.F) {
	f.Add("keep-last 3\nkeep-daily 7\nkeep-within 1d12h\nkeep-label release\n")
	f.Add("group-by label:agent\n# comment\n[scratch]\nselect-label tier=scratch\nkeep-last 0\noptional\n[rest]\nselect-source \"*\\xff\\n\"\nkeep-all")
	f.Add("keep-label \"a=\\\"\nkeep-last -1\n[[]]\nkeep-yearly 2147483648")
	f.Fuzz(func(t *testing.T, text string) {
		policy, err := retention.ParsePolicy(text)
		if err != nil {
			if !errors.Is(err, retention.ErrInvalid) {
				t.Fatalf("error %v", err)
			}
			var at *retention.SyntaxError
			if errors.As(err, &at) && (at.Line < 1 || at.Line > strings.Count(text, "\n")+1) {
				t.Fatalf("%v in a text of %d lines", err, strings.Count(text, "\n")+1)
			}
			return
		}
		if err := policy.Check(); err != nil {
			t.Fatalf("it was read and makes no sense: %v", err)
		}
		s := retention.Snapshot{ID: blob.ID{1}, Source: "/ws", Labels: map[string]string{"tier": "scratch", "ttl": text, "release": ""}}
		plan, err := retention.NewPlan([]retention.Snapshot{s}, policy, retention.Options{})
		if err != nil || len(plan.Groups) != 1 || plan.Stays() == 0 && plan.Refusal() == nil {
			t.Fatalf("plan %+v, %v", plan, err)
		}
		if _, err := retention.ParsePolicy("#\n\n" + strings.ReplaceAll(text, "\n", "\n \n\t# x\n")); err != nil {
			t.Fatalf("with more comments: %v", err)
		}
	})
}
