// Loadtest measures the command collector on this machine: each measurement runs
// the real binary beside what it is compared with, in processes of their own, in
// turns, and prints a table.
//
//	go run ./loadtest ingest    # calls stored a second, with fsync
//	go run ./loadtest deliver   # deliveries a second, beside a bare loop
//	go run ./loadtest dead      # a dead destination with a backlog beside a healthy one
//	go run ./loadtest start     # start-up, with a million calls pending or delivered, and idle memory
//	go run ./loadtest verify    # what the proof of the ledger takes
//	go run ./loadtest churn     # memory and the data directory while calls come and go
//	go run ./loadtest compare   # single calls, as docs/comparison.md has them of other programs
//	go run ./loadtest moderate  # what a single call costs at 100 and at 500 a second
//	go run ./loadtest cluster   # what a call costs on three NATS servers
//
// With --binary it measures a command that was built before, of another version for
// example.
//
// # Files
//
//  1. main.go: the command
//  2. compare.go, cluster.go, ingest.go, deliver.go, dead.go, verify.go, start.go, churn.go, moderate.go: a measurement in each
//  3. peers.go: what the collector is compared with
//  4. bench.go: what all measurements need
package main
