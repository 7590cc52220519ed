// Package delivery brings the calls of one destination from the journal to its
// webhooks.
//
// # The path of an entry
//
// One goroutine for each [Worker] leases entries from the journal, as many as the gate
// wants. Each entry gets a goroutine that routes its calls, waits at the gate for all
// of them, and tells the journal how each ended. The gate admits calls, so many
// at once: a breaker and a limiter say when one may begin at all, a fair queue whose turn it is, and an
// intake which entries are leased for that. A call
// that is admitted is sent to all webhooks at once; the first that takes it decides,
// and the other requests go on as trailing ones. What may still succeed comes back from
// the journal at its time, for four hours; a webhook that has refused a call for good is
// not asked for it again.
//
// Where a destination is to get the calls of each user in their order, lines say which
// may be attempted; the type says how.
//
// # What may block
//
// The worker waits for the journal, an entry for the gate and the journal, a call for
// Superseded and its webhooks. A destination that hangs fills its own gate and nobody else's: its
// backlog stays in the journal.
//
// # What guards what
//
// Worker.mu guards the state of a worker, with the table of its transitions at
// workerState. gate.mu guards the gate and its four parts, which have no lock and know
// no clock. Neither is held while anything is waited for. Everything that decides
// without doing (routing, the schedule of retries, the breaker, the fair queue) is
// tested without goroutines.
//
// # Files
//
//  1. lease.go: entries are leased
//  2. order.go: an entry is worked at where the calls of a user have an order
//  3. retry.go: and where they have none, and the journal told how it ended
//  4. deliver.go: one call is sent to the webhooks of the destination
//  5. worker.go: what a worker is, and its states
//  6. lines.go: the calls of each user in their order
//  7. gate.go: a call is admitted
//  8. intake.go: whether more entries are wanted
//  9. fairqueue.go: whose turn it is
//  10. note.go: what the next attempt needs to know
//  11. statuslog.go: how the destination does is logged
//  12. breaker.go: when a call may begin, by how others ended
//  13. limiter.go: and by what the settings and the receiver ask for
//  14. requests.go: requests that are under way
package delivery
