// Package queue leases the entries of each destination to the goroutines that deliver them.
//
// A puller requests messages from the server, one for each waiting goroutine. A message of
// CALLS becomes one item for each part whose first attempt has not ended; a message of
// RETRY becomes one item. A reader leases items. When a lease ends, its outcome is stored,
// together with other outcomes; then a [Settler] schedules retries and stores failed calls.
//
// If destinations are delivered in order and several processes share the journal, one
// process at a time owns a destination. See ownership.go.
//
// Lock order: a queue's lock is held while the ledger is queried for parts that have ended
// and until the other parts are in items. Otherwise a part that ends in between would be
// leased again.
//
// state.go describes the state of a queue and of an item.
package queue
