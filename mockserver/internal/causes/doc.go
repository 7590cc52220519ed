// Package causes groups what goes wrong: attempts and calls that failed by destination
// and cause, calls that were rejected and requests that were refused by code and source.
// [Causes] is an [event.Observer].
//
// # What is counted
//
// Attempts that this collector made, calls that it gave up, and calls and requests that it
// refused, since it began to count. The counts of a group are exact. A cause is a text without what
// differs from call to call, see [Of]: that the order 17 is unknown, and the order 18, is
// one cause. A call with several webhooks that failed in different ways has a cause made
// of theirs, while each attempt has its own.
//
// # What is bounded
//
// There are up to 200 groups of failures and as many of refusals. Beyond, the group that
// was quiet for the longest makes room, and goes on to be counted among the [Others]. Of
// the senders of a group eight are kept, the most frequent about; what others sent is
// counted together. A group takes about 6 KB at most, so all of them 2.5 MB.
//
// # What is kept
//
// A group that has changed is written once a minute, see package persist. Addresses of
// senders, and messages and answers in the words of one case are not written: they may
// tell of a person. The cause is.
//
// # What guards what
//
// Causes.mu guards everything. It is taken for what went wrong alone, and held for a few
// microseconds.
//
// # Files
//
//  1. persist.go: what is kept over restarts
//  2. causes.go: events are told
//  3. group.go: what went wrong for one cause
//  4. senders.go: who sent what went wrong
//  5. counter.go: how often in the last hour and day
//  6. reason.go: what differs from call to call is left out of a text
package causes
