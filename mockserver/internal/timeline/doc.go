// Package timeline lists the calls of one user in order, from the calls in a
// [history.History].
//
// A user has several IDs: an anonymousId before login, and a userId afterwards. An alias call
// links its previousId and userId, and an identify call its anonymousId and userId. Links are
// transitive. An anonymousId and a userId with the same value are the same ID, because a
// previousId can be either.
//
// [Read] scans all calls twice. The first scan follows links, starting at the requested ID. The
// second scan finds the calls with one of the linked IDs. Read sorts these calls by time. For each
// call in a window, it computes the time since the previous call and the changed traits.
//
// The numbers of IDs, calls, calls in a window, and identify calls before the window are limited.
// Data beyond the limits is only counted. Nothing is retained between two timelines.
package timeline
