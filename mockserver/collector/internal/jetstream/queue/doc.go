// Package queue leases the entries of each destination to the goroutines that deliver them.
//
// A puller requests messages from the server, usually one for each waiting goroutine. A message of
// CALLS becomes one item for each part whose first attempt has not ended. A message of RETRY
// becomes one item. A reader leases items. When a lease ends, its outcome is stored together
// with other outcomes. Then a [Settler] schedules retries and stores failed calls.
//
// If a destination is delivered in order and several processes share the journal, one process
// at a time owns the destination. See ownership.go.
//
// Lock order: Queue.mu before the ledger's lock. Queue.mu stays locked until the unattempted parts
// are in items. Otherwise, a part that ends in between would be leased again.
//
// See state.go for the state of a queue and of an item.
package queue
