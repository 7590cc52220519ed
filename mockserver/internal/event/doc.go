// Package event contains the events of the collector: stored and duplicate calls, rejected
// calls, refused requests, attempts and outcomes.
//
// Stages report events to an [Observer], after the fact, and do not know who observes them:
// history, metrics, lists of users, and statistics. Observe is called concurrently and must
// not block, because a stage waits for it.
//
// A [Batch] is the unit of storage. A [Key] identifies a call in maps. [ReadCall] parses a stored
// call, and [TextOf] maps the fields of package fields to the strings of a call.
//
// A [Trace] is the W3C trace context of a request. Invalid headers are ignored, and the size is
// limited.
package event
