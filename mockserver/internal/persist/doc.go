// Package persist saves statistics to a [state.Store] and restores them after a restart.
//
// A [Persister] saves changed records every minute and when it stops. After a crash, the
// last minute is missing. It restores the stored records in the background. Until then its
// owner counts from zero, and Restore adds the stored counts. An unreadable record, for
// example of another version, is logged, and its counters start again.
package persist
