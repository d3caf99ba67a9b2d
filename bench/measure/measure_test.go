package measure

import (
	"strings"
	"testing"
	"time"
)

func TestCommandAccounts(t *testing.T) {
	run, err := Command(t.Context(), []string{"WORD=there"}, "sh", "-c", `test "$WORD" = there`)
	if err != nil || run.Wall <= 0 || run.RSS != 0 { // a shell is smaller than this program
		t.Errorf("%+v, %v", run, err)
	}
	large := `x=$(head -c 300000000 /dev/zero | tr '\0' x); test ${#x} = 300000000`
	if run, err = Command(t.Context(), nil, "sh", "-c", large); err != nil || run.RSS < 300_000_000 {
		t.Errorf("a process of 300 MB: %+v, %v", run, err)
	}
	if _, err := Command(t.Context(), nil, "sh", "-c", "echo because >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "because") {
		t.Errorf("a failing command: %v", err)
	}
}

func TestMedians(t *testing.T) {
	wall := func(seconds ...int) Series {
		var s Series
		for _, n := range seconds {
			s = append(s, Run{Wall: time.Duration(n) * time.Second, RSS: int64(n)})
		}
		return s
	}
	if got := wall(9, 1, 3).Wall(); got != 3*time.Second {
		t.Errorf("median %v", got)
	}
	if got := wall(1, 7, 3).RSS(); got != 7 {
		t.Errorf("peak %d", got)
	}
	if got := Ratio(wall(1, 1, 4), wall(2, 4, 4)); got != 0.5 {
		t.Errorf("ratio %v", got)
	}
	if got := Ratio(nil, nil); got != 0 {
		t.Errorf("ratio of nothing %v", got)
	}
}
