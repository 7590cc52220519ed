// Package retry decides the next step for a batch after an attempt, based on the status and
// headers of the response, previous attempts, and the time. It sends no requests and reads no
// clock. Only [Policy.Backoff] and the jitter of [Policy.Pause] are not deterministic.
//
// It implements the contract of the service's libraries for servers since 2026:
//
//   - After no response, 408, 410, 429, 460, or 5xx except 501, 505 and 511, the batch is
//     retried. The pause starts at half a second and doubles up to a minute, with jitter.
//     The last retry is at most [Policy.MaxBackoff] after the first failure.
//   - If a response with one of these statuses contains Retry-After, the batch is retried
//     after that time, from a second to five minutes. The attempt does not count.
//     [Policy.MaxRateLimit] limits this time separately.
//   - Each retry has the header X-Retry-Count with the number of previous attempts.
//
// The service can change these numbers with an httpConfig in the settings of a source. Its
// libraries for browsers and mobile devices read the settings, and its server libraries do not.
// This client reads them if configured.
package retry
