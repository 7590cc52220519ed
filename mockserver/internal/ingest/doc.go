// Package ingest serves the tracking API: it takes the calls of senders, and answers
// once they are stored.
//
// # The path of a request
//
// The path of its address leads to an endpoint. The body is read, decompressed and
// bounded, and cut into calls in one pass, without building values. Each call is
// checked and completed with its ID, corrected times and the context of its batch, and
// put into the batch of its source; those that are wrong are set aside with a
// [tracking.Code]; so are, if the tracking plan of their source says so, calls that are not
// as it plans. A source that sends more than it may is told when to come again.
// Calls that were stored before are left out, the rest goes to the journal, and only
// then the request is answered.
//
// # What may block
//
// A request waits for its sender, up to the server's time-out; for the journal; and for
// another request that is storing the same call, in Dedup.reserve, since to answer for
// a call that is not yet stored would lose it if that one fails. It never waits for a
// destination.
//
// # What guards what
//
// A request has its body, its post and its sorter to itself; they are reused through a
// pool. [Dedup] and the rates of sources have a mutex each, held for no longer than one
// batch takes to look up. A [SourceTable] does not change: other settings make another.
// Nothing here starts a goroutine, but for one that waits until it is known how much of
// a batch is stored after an append that was given up.
//
// # Files
//
//  1. serve.go: a request comes in, and its path leads to what serves it
//  2. pixel.go: a call in the address of an image
//  3. lookup.go: what libraries ask for at their start, and tests for the calls that came
//  4. take.go: the stages of a request that brings calls, one after another
//  5. sort.go: each call is checked, completed, and put into the batch of its source
//  6. store.go: the batch goes into the journal, and observers are told
//  7. refusal.go: the answer, and what is told of a request that was refused
//  8. handler.go: what all of these work with, the limits, and what libraries report of themselves
//  9. judge.go: a call is held against the plan of its source, and violations are told of
//  10. body.go: the body is read, decompressed and bounded
//  11. complete.go: a call gets its ID, its times, and the context of its batch
//  12. draft.go: one call is read, and held against the rules of its type
//  13. parse.go: a body is cut into calls, in one pass
//  14. writekey.go: the write keys of a request, and the source of each
//  15. answer.go: what an answer says
//  16. endpoint.go: what each path leads to
//  17. dedup.go: calls that were stored before
//  18. overlay.go: an object of the batch beneath that of a call
//  19. ratelimit.go: how many calls a second each source may send
package ingest
