// Package causes groups problems by cause: failed attempts and calls by destination,
// rejected calls and refused requests by code and source. [Causes] is an [event.Observer].
//
// # Counting
//
// A cause is an error message without its variable parts, see [Of]: "order 17 is unknown"
// and "order 18 is unknown" have the same cause. If the webhooks of a destination fail in
// different ways, each attempt has its own cause, and the call has a combined one. Counts
// of a group are exact, and cover only this collector.
//
// # Limits
//
// There are at most 200 groups of failures, and 200 of rejections and refusals. The group
// with the oldest last event is evicted first and then counted in [Others]. A group lists
// eight senders, roughly the most frequent ones, and counts the others together. A group
// takes at most 6 KB, all groups 2.5 MB.
//
// # Storage
//
// Changed groups are saved every minute, see [state.Persister]. The stored record contains
// the cause, but no sender addresses, messages or responses, because these may contain
// personal data.
//
// # Locking
//
// Causes.mu guards everything. Only problems lock it, for a few microseconds each.
package causes
