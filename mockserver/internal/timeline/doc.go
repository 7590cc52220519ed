// Package timeline puts the calls of one user in order, out of what a
// [history.History] remembers.
//
// A user has several ids: an anonymous one before the login, others after it. An alias call
// joins its previousId and its userId, and an identify call its anonymousId and its userId;
// what is joined to one of a user's ids is joined to all. An id is a text: that of an
// anonymousId and that of a userId are the same id where they are the same text, as a
// previousId can be either.
//
// # The path of a timeline
//
// [Read] looks at all calls twice. The first time it collects what joins ids, and follows
// that from the id that was asked for; the second time it collects the calls that have one
// of these ids. It sorts them by when they happened, and of a window of them it says
// how long after the call before each was, and what an identify call changed in the
// user's traits.
//
// # What is bounded
//
// The ids of a user, the calls that are put in order, the calls of a window, and the
// identify calls before it that are read for the traits. What is beyond is counted. Nothing
// is kept between two timelines.
//
// # Files
//
//  1. timeline.go: the calls of a user in order
//  2. traits.go: the traits of a user, as identify calls change them
//  3. join.go: which ids belong to one user
package timeline
