// Package measure counts the attempts of each destination: the number, the failures and the
// latency of the last hour and the last day, and the newest failure. [Destinations] is an
// [event.Observer].
//
// # Counting
//
// An attempt is one request of this collector to a webhook. Requests that the collector
// canceled are not counted. Requests that reached no receiver are counted without latency.
//
// # Limits
//
// The last hour is counted by minute, the last day by 15 minutes; sums have this accuracy.
// Latency is counted in a histogram whose buckets grow by a fifth, so percentiles are
// accurate to 10 %. A busy destination takes about 55 KB. The newest 1,000 destinations are
// counted.
//
// # Storage
//
// Changed destinations are saved every minute, one record each, see [state.Persister].
// Responses of webhooks are not stored.
//
// # Locking
//
// Destinations.mu guards the map. Each destination has its own mutex, which is held for
// nanoseconds.
package measure
