// Package history retains the newest calls and their outcomes, for tests, the
// inspector and the API. [History] is an [event.Observer].
//
// # Data flow
//
// [History.Observe] adds an event to the record of its call. A destination may finish a call
// before the request learns that the call is stored; until then the call's events are in an early
// entry. All other items are in the [Feed]. It has a ring per kind of items, which are numbered by
// arrival and by change. Every change wakes the waiting readers.
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
// History.mu guards all data, including the feed. Every call waits for Observe, so the lock is held
// only while an event is added or up to 250 items are read. The match functions of Records, Page
// and Await run on copies, without the lock. The functions passed to View and Scan run with the
// lock held and must be fast. A copy of a record never changes, because the lists that it shares
// with the record are only appended to.
package history
