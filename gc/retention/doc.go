// Package retention decides which snapshots stay and which go. It is pure: it is
// given descriptions of snapshots, a [Policy] and a time, and returns a [Plan],
// which is data. Nothing is read or forgotten here.
//
// [NewPlan] takes these steps:
//
//  1. order    place every snapshot on one line of time, children after parents
//  2. assign   give each snapshot to the first section that selects it, and there
//     to a group: one per source, per value of a label, or one for all
//  3. expire   find the snapshots whose ttl label has ended
//  4. keep     let each rule of the section name what it keeps in the group
//  5. object   say what looks like a mistake ([Objection])
//
// A snapshot that a rule names stays. So does a pinned one. A snapshot whose ttl
// has ended goes unless it is pinned or a keep-label rule names it. The rest goes.
//
// # Order
//
// Clocks of writers may be wrong, so snapshots are not ordered by what their
// writers read from them alone. The effective time of a snapshot is its own time
// or its parent's effective time, whichever is later; snapshots of one effective
// time are ordered by the number of their ancestors. So a child is never older
// than its parent, and a rule that counts from the newest one, or takes the newest
// one of a day, never prefers an ancestor to its descendant.
//
// # Clocks
//
// No rule asks for this machine's clock: a machine whose clock runs ahead would
// forget what it should keep, and a workspace that rests for a month would lose
// everything to "within 30 days". keep-within counts from the newest snapshot of
// the group. Only a ttl needs a present time, which the caller passes in.
//
// Values are safe for concurrent use as long as nobody changes them.
package retention
