// Package stats counts problems by cause, and the attempts of each destination. [Causes] and
// [Destinations] are observers of events.
//
// # Causes
//
// Causes groups failed attempts and calls by destination, and rejected calls and refused requests
// by code and source. A cause is an error message without its variable parts, see [CauseOf]: "order
// 17 is unknown" and "order 18 is unknown" have the same cause. If the webhooks of a destination
// fail in different ways, each attempt has its own cause, and the call has a combined one. Counts
// of a group are exact, and cover only this collector.
//
// There are at most 200 groups of failures, and 200 of rejections and refusals. The group with the
// oldest last event is evicted first and then counted in [Others]. A group lists eight senders,
// roughly the most frequent ones, and counts the others together. A group takes at most 6 KB, all
// groups 2.5 MB.
//
// # Destinations
//
// Destinations counts the attempts, their failures and their latency in the last hour and the last
// day, and retains the newest failure. An attempt is one request of this collector to a webhook.
// Requests that the collector canceled are not counted. Requests that reached no receiver are
// counted without latency.
//
// The last hour is counted by minute, the last day by 15 minutes; sums have this accuracy. Latency
// is counted in a histogram whose buckets grow by a fifth, so percentiles are accurate to 10 %. A
// busy destination takes about 55 KB. The newest 1,000 destinations are counted.
//
// # Storage
//
// Changed groups and destinations are saved every minute, one record each, see [state.Persister].
// Records contain no sender addresses, messages or responses, because these may contain personal
// data.
//
// # Locking
//
// Causes.mu guards everything in a Causes. Only problems lock it, for a few microseconds each.
// Destinations.mu guards the map. Each destination has its own mutex, which is held for
// nanoseconds.
package stats
