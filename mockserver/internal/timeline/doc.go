// Package timeline lists the calls of one user in order, from the calls in a
// [history.History].
//
// A user has several IDs: an anonymousId before login, a userId afterwards. An alias call
// links its previousId and userId, an identify call its anonymousId and userId. Links are
// transitive. An anonymousId and a userId with the same value are the same ID, because a
// previousId can be either.
//
// [Read] scans all calls twice: first for links, starting at the requested ID, then for the
// calls with one of the linked IDs. It sorts them by time, and computes for each call in a
// window the gap before it and the traits it changed.
//
// The number of IDs, calls, calls in a window and identify calls before it is limited; the
// rest is counted. Nothing is retained between two timelines.
package timeline
