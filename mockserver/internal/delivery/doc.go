// Package delivery delivers the calls of one destination from the journal to its webhooks.
//
// # The path of an entry
//
// A [Worker] has one goroutine that leases entries from the journal, as long as the gate
// accepts more. Each entry has a goroutine that routes its calls, waits at the gate and
// stores the results in the journal. The gate limits the calls in flight: the breaker and the
// limiter decide when a call may begin, the fair queue selects the next call, and the intake
// selects the entries to lease. An admitted call is sent to all webhooks at the same time. The
// first 2xx response decides; the other requests continue as trailing requests. The journal
// returns calls that failed temporarily at their scheduled time, for up to four hours. A
// webhook that refused a call permanently does not receive that call again.
//
// With ordered delivery, userQueues decides which calls may be attempted.
//
// # Blocking
//
// The worker waits for the journal. An entry waits for the gate and the journal. A call waits
// for Superseded and its webhooks. A destination that hangs fills only its own gate, and its
// backlog stays in the journal.
//
// # Locks
//
// Worker.mu guards the state of the worker; workerState has the table of transitions. gate.mu
// guards the gate and its parts. The parts have no locks and do not read the clock.
// userQueues.mu guards the user queues. No lock is held while waiting. Decisions are pure
// functions or types without goroutines.
//
// # Files
//
//  1. worker.go, run.go: the states of a worker; leasing of entries
//  2. entry.go: the calls of an entry, and its result
//  3. gate.go, intake.go, fairqueue.go, breaker.go, limiter.go: admission of calls
//  4. job.go, requests.go, note.go: the requests of a call, and its result
//  5. order.go, userqueues.go, userqueue.go, linkedids.go: ordered delivery
package delivery
