// Package explore runs the real writers and collectors against a store that takes up
// one request at a time, in every order, and looks at the store after each: whatever
// a visible snapshot needs must be there, and stay.
//
// A [Scenario] is a handful of [Actor] programs and the objects that they begin with.
// Each program runs in a bubble of package testing/synctest, where time stands still
// and one can tell when all its goroutines wait. Every call of the store waits until
// it is granted, which is a step; several calls that a program makes at once can be
// granted in any order. A request may also meet a fault: its answer is lost, it is
// made again, it arrives late, or twice. A program that crashes is one that takes no
// further step, and every state is judged, so crashes need no steps of their own.
//
// # How it searches
//
// A program's randomness begins anew with each of its steps (see random), so what it
// does is a function of the answers that it got: its history. The explorer keeps a
// tree of histories for each actor, and has the real program run only to find out
// what comes behind a new one; a program that is needed at an earlier place is run
// again from its beginning and given the same answers. This is the stateless search
// of Godefroid, "Model checking for programming languages using VeriSoft" (POPL 1997),
// for each actor alone. How histories combine is then a matter of data: a state is the
// history of each actor, the objects of the store, and the requests that are still on
// their way; a state that was seen is not looked at again. So some hundred runs of a
// program, 10 ms each, stand for 10^9 to 10^16 schedules.
//
// [Explore] begins with the schedules in which few actors are interrupted: iterative
// context bounding, after Musuvathi and Qadeer, "Iterative context bounding for
// systematic testing of multithreaded programs" (PLDI 2007). A violation is told with
// as few interruptions as it takes. What is too large is sampled by [Walk].
//
// # What it does not see
//
// A listing is one step, unless a scenario has it made in pages. Two orders of answers
// to requests that an actor made at the same time count as one if it asks for the same
// afterwards, unless a scenario is Exact. No time passes while a scenario runs: what
// depends on age is old, or young, from beginning to end.
package explore
