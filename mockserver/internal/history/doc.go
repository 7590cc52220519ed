// Package history retains the newest calls and their outcomes, for tests, the
// inspector and the API. [History] is an [event.Observer].
//
// # Data flow
//
// [History.Observe] adds an event to the record of its call. A destination may finish a call
// before the request learns that the call is stored; until then its events are in an early
// entry. All other items are in the [Feed]: in a ring per kind, numbered by arrival and by
// change. Every change wakes the waiters.
//
// Readers query matching records ([History.Records], [History.Page]), wait for them
// ([History.Await]), or read the feed ([History.View], [History.Scan]) and continue from a
// [Cursor]. The terminal view follows each attempt with [History.Activities].
//
// # Limits
//
// The number of items of each kind and their approximate memory are limited. The oldest
// items of a kind expire first. Rejected and synthetic calls therefore do not displace the
// calls of senders.
//
// # Locking
//
// History.mu guards everything, including the feed. It is held while an event is added or
// up to 250 items are read, because every call waits for Observe. The match functions of
// Records, Page and Await run without the lock, on copies. The functions of View and Scan
// run with it and must be fast. Copies of a record do not change: its lists are only appended to.
package history
