package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Every policy in the documentation is one.
func TestDocumentedPolicies(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "retention.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```")
	found := 0
	for i := 1; i < len(blocks); i += 2 {
		policy, ok := strings.CutPrefix(blocks[i], "conf\n")
		if !ok {
			continue
		}
		found++
		if _, err := retention.ParsePolicy(policy); err != nil {
			t.Errorf("%v in\n%s", err, policy)
		}
	}
	if found == 0 {
		t.Error("there is none")
	}
}

func TestForgetHints(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
		hint string
	}{
		{&retention.RefusedError{Objections: []retention.Objection{{Err: retention.ErrRemovesAll}}}, exitFailed, "--force"},
		{retention.ErrInvalid, exitUsage, ""},
		{objectstore.ErrNoSpace, exitFailed, "`snapctl gc`"},
		{&retention.RefusedError{Objections: []retention.Objection{{Err: engine.ErrDamaged}}}, exitDamaged, "--force"},
		{errors.New("other"), exitFailed, ""},
	} {
		got := explain(forgetFailed(&engine.Error{Op: "forget", Err: test.err}))
		if got.code != test.code || !strings.Contains(got.hint, test.hint) {
			t.Errorf("%v: %+v", test.err, got)
		}
	}
}
