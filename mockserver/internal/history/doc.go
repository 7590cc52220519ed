// Package history remembers the newest of what happened: for tests, the inspector, and
// the API's lists of calls. It is an [event.Observer].
//
// # The path of an event
//
// [History.Observe] files an event with the record of its call. Calls of senders and
// those that the collector made itself are in a ring each, in the order in which they
// came; calls that a destination was done with before the request was told that they
// are stored wait among the early entries. Every change goes to the [Feed], which
// numbers all that can be shown by arrival and by change, and wakes those who wait.
//
// Whoever reads asks for records that match ([History.Records], [History.Page]), waits
// until there are some ([History.Await]), or looks at the feed ([History.Look],
// [History.Scan]) and comes back with a [Cursor].
//
// # What is bounded
//
// The number of records, and about the memory that they take; the oldest make room.
// The shares of rejected calls and of the collector's own are bounded beside, so that
// neither pushes the calls of senders out.
//
// # The mutex
//
// History.mu guards everything, entries and feed included. It is held for no longer
// than an event takes to file, or 250 items take to be looked at: Observe is called on
// the path of every call. Matches of Records, Page and Await run without it, on copies;
// those of Look and Scan with it, and must be quick. Copies of a record stay as they
// were: lists are appended to, and never changed in place.
//
// # Files
//
//  1. watch.go: waits for records that match
//  2. observe.go: an event is filed
//  3. refusals.go: requests that were refused, of which there may be a flood
//  4. outcomes.go: how the newest attempts of a destination ended
//  5. select.go: records that match
//  6. look.go: what pages see of the feed
//  7. history.go: records in rings, and the early ones
//  8. feed.go: all that can be shown, numbered by arrival and by change
//  9. synthetic.go: which calls the collector made itself
//  10. tally.go: what happened in each of the last seconds
package history
