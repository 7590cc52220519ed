// Package store is the streams as the journal uses them. Publish appends a message and
// returns once it is stored; a Tail reads a stream in its order from a number on; Status
// says whether the store can be written to, and ends what is under way when it cannot.
// All goroutines of a journal are in Work, which ends with Ctx.
package store
