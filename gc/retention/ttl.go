package retention

import (
	"fmt"
	"time"
)

// The labels that mean something to a plan.
const (
	// PinLabel protects a snapshot from every rule, whatever its value.
	PinLabel = "pin"
	// TTLLabel lets a snapshot expire: after a duration (see ParseDuration) from
	// its effective time, or at a time in RFC 3339.
	TTLLabel = "ttl"
)

// Pinned reports whether the labels protect a snapshot.
func Pinned(labels map[string]string) bool {
	_, ok := labels[PinLabel]
	return ok
}

// ends returns when the snapshot expires; ok is false if never.
func (p *placed) ends() (at time.Time, ok bool, err error) {
	text, ok := p.Labels[TTLLabel]
	if !ok {
		return time.Time{}, false, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true, nil
	}
	d, err := ParseDuration(text)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("label %s=%.40q is neither a duration such as 14d nor a time in RFC 3339: it has no effect", TTLLabel, text)
	}
	return p.at.Add(d), true, nil
}

// expired reports whether the ttl has ended. A snapshot that lies in the future
// has not expired: either its writer's clock or this machine's is wrong.
func (p *placed) expired(now time.Time) (at time.Time, expired bool, err error) {
	at, ok, err := p.ends()
	return at, ok && !now.Before(at) && !now.Before(p.at), err
}
