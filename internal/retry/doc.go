// Package retry decides what becomes of a batch after an attempt to send it: by the
// answer's status and headers, by what the batch has met before, and by the time. It
// makes no request, keeps no time and knows no client; all of it is pure, but for what
// [Policy.Pause] is told by [Policy.Backoff] and its jitter, and what [Policy.Next] notes
// in a [Tries].
//
// It is the contract that the service's own libraries for servers have since 2026:
//
//   - No answer, 408, 410, 429, 460 and 5xx but 501, 505 and 511 are tried again, after
//     half a second at first, twice as long each time, a minute at most, with jitter.
//     That goes on for [Policy.MaxBackoff] after a batch's first failure.
//   - Retry-After with one of those is waited for, from a second to five minutes, and
//     does not count. That goes on for [Policy.MaxRateLimit], which is counted apart.
//   - Each attempt but the first says by X-Retry-Count how many came before it.
//
// The service may change these numbers by an httpConfig in a source's settings. Its
// libraries for browsers and mobile devices read it, those for servers do not; ours does
// on demand.
//
// # Files
//
//  1. config.go: the httpConfig of a source's settings
//  2. header.go: what an answer asks for
//  3. policy.go: what an answer means, and what comes next
package retry
