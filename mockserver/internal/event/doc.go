// Package event says what the collector tells of: calls that were stored or came
// again, calls and requests that were refused, attempts, and how calls ended.
//
// The stages know nobody who listens. Each calls the one method of an [Observer], after
// the fact: history, metrics, the lists of users and the store of attempts are such
// observers, and [Observers] joins them. Observe is called by many goroutines at once
// and must not block: a stage waits for it.
//
// The [Batch] is the unit of storage, and a [Key] names a call in maps.
//
// # Files
//
//  1. event.go: events and observers
//  2. batch.go: what one request brought for one source, and the names of calls in maps
package event
