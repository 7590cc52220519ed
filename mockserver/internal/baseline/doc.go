// Package baseline records the calls of a test run in a file that can be reviewed and
// committed, and compares later runs with the file.
//
// [Record] converts calls to a [File]. [Compare] lists the differences of a run from a file.
// [Merge] updates a file with a new run. [Parse] and [File.Encode] read and write files.
//
// # Users
//
// The IDs of one call (userId, anonymousId and previousId) belong to one user, and so do all
// calls that share an ID. The calls of an anonymous visitor who is identified later therefore belong
// to one user. A file does not name users by their IDs, because IDs may differ between runs. It sorts
// users by their calls, so it does not depend on the interleaving of users. Compare matches the
// users of two runs: first users with equal calls, then users with an equal ID, then users with
// the most calls in common.
//
// The calls of a user are in the order of the sender's clock (originalTimestamp, or timestamp),
// because concurrent requests may arrive in any order. Calls with the same time are in order of
// arrival. The collector has already removed duplicates with the same messageId.
//
// # Values
//
// A file contains calls as JSON, without their messageId and their times. The following values
// become placeholders, even within a longer string, and even if they are equal in each run, because
// one run does not show whether they vary:
//
//   - UUIDs, ULIDs, KSUIDs, and hexadecimal or decimal IDs of at least 16 characters
//   - times in ISO 8601, HTTP and JavaScript format; dates; Unix times from 2017 to 2036 in
//     seconds and milliseconds, and, as numbers, in microseconds and nanoseconds
//   - ports in URLs, and paths in temporary directories
//   - in the context: versions and IP addresses
//
// All random values of a format must have the same placeholder, except with negligible probability.
// For this reason, a decimal ID of 16 digits has the placeholder of hexadecimal IDs, and shorter IDs
// and base64 IDs are not recognized. If a user has several IDs with the same placeholder, the
// placeholders are numbered.
//
// All other values, such as prices, must be equal. If such a value varies, Merge with widen replaces
// it with a wildcard, such as <number>. A wildcard matches any value of its type, <any> matches any
// value, and <optional> also matches a missing field. If the order of a user's calls differs, the
// file no longer requires an order. Wildcards can also be written by hand. Merge without widen keeps
// the wildcards of the file, and takes all other values from the run.
//
// # Limits
//
// A file has at most [MaxCalls] calls and [MaxBytes] bytes. The number of comparisons is limited.
// Beyond the limit, only identical calls match, so the differences may be less precise.
package baseline
