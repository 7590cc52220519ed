// Package baseline records the calls of a test run in a file that can be reviewed and
// committed, and compares later runs with the file.
//
// [Record] converts calls to a [File]. [Compare] lists the differences of a run from a file.
// [Merge] updates a file with a new run. [Parse] and [File.Encode] read and write files.
//
// # Users
//
// The IDs of one call (userId, anonymousId and previousId) belong to one user, and so do all
// calls that share an ID. An anonymous visitor who is identified later is therefore one user. IDs
// do not name users, because they may differ between runs. A file lists users without names,
// sorted by their calls, so it does not depend on the interleaving of users. Compare matches the
// users of two runs: first users with equal calls, then users with an equal ID, then users with
// the most calls in common.
//
// The calls of a user are in the order of the sender's clock (originalTimestamp, or timestamp),
// because concurrent requests may arrive in any order. Calls with the same time are in order of
// arrival. The collector has already removed duplicates with the same messageId.
//
// # Values
//
// A file contains calls as JSON, without messageId and the times of the call. The following
// values become placeholders, even in a longer string and even if they are equal in each run,
// because one run does not show whether they vary:
//
//   - UUIDs, ULIDs, KSUIDs, and hexadecimal or decimal IDs of at least 16 characters
//   - times in ISO 8601, HTTP and JavaScript format; dates; Unix times from 2017 to 2036 in
//     seconds and milliseconds, and, as numbers, in microseconds and nanoseconds
//   - ports in URLs, and paths in temporary directories
//   - in the context: versions and IP addresses
//
// A recognized format is the same for every random value, except with negligible probability. For
// this reason, an ID of 16 digits has the placeholder of hexadecimal IDs, and shorter or base64
// IDs are not recognized. If a user has several IDs with the same placeholder, they are numbered.
//
// All other values, such as prices, are exact. Merge with widen handles the ones that vary: it
// replaces values that differ between two runs with a wildcard, such as <number>. A wildcard
// matches any value of its type, <any> any value, and <optional> any value or none. If the order
// of a user's calls differs, it no longer matters. Wildcards can also be written by hand. Merge
// without widen keeps wildcards, and adopts all other changes.
//
// # Limits
//
// A file has at most [MaxCalls] calls and MaxBytes bytes. The number of comparisons is limited;
// beyond the limit, only identical calls match, so the differences may be less precise.
package baseline
