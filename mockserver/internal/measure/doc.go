// Package measure says how the destinations are doing: how many attempts they had in the
// last hour and in the last day, how many of these failed, how long they took, and what
// the newest failure was. [Destinations] is an [event.Observer].
//
// # What is counted
//
// Each request to a webhook that this collector has made, since it began to count. Requests that the
// collector broke off itself say nothing of the receiver and are left out. Those that
// reached no receiver are counted, and leave no duration.
//
// # What is bounded
//
// The attempts of an hour are counted by minutes, those of a day by quarters of an hour:
// so a span is right to one of these. Durations are counted in a histogram whose classes
// grow by a fifth, so a percentile is off by a tenth at most. A busy destination takes
// about 55 KB, and the newest 1,000 destinations are kept.
//
// # What is kept
//
// What is counted is written once a minute where it has changed, a destination to a
// record, see package persist: so a span is true also after a restart, but for the minute
// before a process was killed. Answers of webhooks are not written.
//
// # What guards what
//
// Destinations.mu guards the map, and each destination has a mutex of its own, which is
// held for the nanoseconds that an attempt takes to count.
//
// # Files
//
//  1. persist.go: what is kept over restarts
//  2. destinations.go: attempts are counted, and how the destinations are doing
//  3. window.go: counts of the last hour, or the last day
//  4. span.go: how many attempts, and how long they took
//  5. histogram.go: durations in classes
package measure
