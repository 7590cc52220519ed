// Package store is the streams as the journal uses them. Publish appends a message and
// returns once it is stored; a Tail reads a stream in its order from a number on; Status
// says whether the store can be written to, and ends what is under way when it cannot.
// All goroutines of a journal are in Work, which ends with Ctx.
//
// # Files
//
//  1. lock.go: one process at a time does something
//  2. load.go: single messages are read
//  3. tail.go: a stream is read on
//  4. transient.go: what may succeed later is tried again
//  5. connected.go: the streams over a connection
//  6. fetch.go: messages of a consumer over a connection
//  7. publish.go: a message is appended
//  8. store.go: what a journal has to do with streams
//  9. streams.go: what is asked of JetStream
//  10. health.go: whether the store can be written to
//  11. link.go: the connections as they are now
//  12. goroutines.go: those of a journal
package store
