// Package persist keeps what a collector has counted over restarts, beside the calls. A
// [Keeper] reads the records that an earlier process wrote to a [state.Store], hands them
// to what counts, and from then on writes those that have changed every minute and at the
// end. Up to a minute is missing after a process was killed.
//
// What counts need not wait for the store: it counts from the start, and adds what was
// stored when it comes, but for what was forgotten meanwhile. Until then nothing is
// written, so that nothing is lost. A record that cannot be read, perhaps of another
// version, is told of in the log, and its owner begins anew.
//
// # Files
//
//  1. keeper.go: records are read at the start, and written from time to time
//  2. record.go: JSON that is compressed
package persist
