// Package history remembers the newest of what happened: for tests, the inspector, and
// the API's lists of calls. It is an [event.Observer].
//
// # The path of an event
//
// [History.Observe] files an event with the record of its call. Calls that a destination
// was done with before the request was told that they are stored wait among the early
// entries. All else is in the [Feed]: in a ring of its kind, numbered by arrival and by
// change. Every change wakes those who wait.
//
// Whoever reads asks for records that match ([History.Records], [History.Page]), waits
// until there are some ([History.Await]), or looks at the feed ([History.View],
// [History.Scan]) and comes back with a [Cursor]. Whoever wants each attempt by itself, as
// a terminal does, follows the [History.Activities].
//
// # What is bounded
//
// The number of items of each kind, and about the memory that they take; the oldest of
// the kind make room. So rejected calls and the collector's own do not push the calls of
// senders out.
//
// # The mutex
//
// History.mu guards everything, the feed included. It is count for no longer than an event
// takes to file, or 250 items take to be looked at: Observe is called on the path of every
// call. Matches of Records, Page and Await run without it, on copies; those of Look and
// Scan with it, and must be quick. Copies of a record stay as they were: lists are appended
// to, and never changed in place.
//
// # Files
//
//  1. activity.go: what happened last, one after the other
//  2. read.go: records and items, and waiting for them
//  3. observe.go: an event is filed
//  4. history.go: the entries of calls, and the early ones
//  5. feed.go: all that can be shown, in rings, numbered by arrival and by change
//  6. filter.go: which calls, and which the collector made itself
//  7. counts.go: what happened in each of the last seconds, and how the newest attempts ended
package history
