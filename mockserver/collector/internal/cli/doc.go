// Package cli is the command collector.
//
// A command either runs a collector, by package service, or asks one that runs, by its
// admin API. What is wrong with a command line ends it with code 2, all else that is
// wrong with 1, and each error says what would be right.
//
// # Files
//
//  1. root.go: the command, and which commands it has
//  2. serve.go, dev.go: they run a collector, or check its configuration
//  3. send.go, expect.go: a call is sent, and calls are held against what is expected
//  4. plan.go, plancalls.go: calls are held against a tracking plan
//  5. deletion.go, sync.go: lists of users
//  6. destinations.go: destinations are added and tried, and pages opened
//  7. calls.go, status.go, health.go: calls are looked at and replayed, destinations, and
//     whether a collector is ready
//  8. follow.go: what happens, for package live
//  9. api.go: a collector that runs is asked
//  10. version.go: which program this is
//  11. output.go, print.go: what people and scripts read
//  12. usage.go: what is wrong with a command line
package cli
