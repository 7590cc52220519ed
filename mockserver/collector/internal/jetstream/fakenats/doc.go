// Package fakenats is a NATS server in memory, for simulations: what the journal uses of
// JetStream, and nothing else; what it does not know makes it panic. The client of
// package nats talks to it over a pipe, as to a server within the process.
//
// A server does what it is asked at once, or, as a simulation wants it, when it is let:
// then requests wait, in an order that is the same in each run, until one is chosen with
// a [Fate]. Time passes for it when [Server.Tick] is called. [Server.Refuse] has it store
// nothing, and [Server.Crash] takes what was not acknowledged.
package fakenats
