// Package analytics is a client for the tracking API. It records calls about users, and
// sends them to a collector in batches, in the background.
//
//	client, err := analytics.NewWithConfig("YOUR_WRITE_KEY", analytics.Config{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer client.Close()
//
//	err = client.Track(&analytics.Track{
//		UserId:     "019mr8mf4r",
//		Event:      "Song Played",
//		Properties: map[string]interface{}{"artist": "Dwele"},
//	})
//
// The kinds of calls are:
//
//   - [Client.Identify] sets the traits of a user.
//   - [Client.Track] records an event.
//   - [Client.Page] and [Client.Screen] record a page view and a screen view.
//   - [Client.Group] adds a user to a group, such as a company.
//   - [Client.Alias] links two IDs of one user.
//
// A program needs one client. Its methods are safe for concurrent use.
//
// # Migrating from version 2
//
// Most programs written for version 2 of the service's library compile after you change the
// import path; MIGRATING.md in the repository lists the exceptions. The fields of [Client]
// that they set after [New] keep their meaning. New programs use [NewWithConfig], which
// reports an invalid [Config] immediately.
//
// # Encoding
//
// A method checks the call and encodes it as JSON before it returns. The client does not
// write to the message and does not read it later, so the caller may change and reuse it.
// If a value cannot be encoded, the method returns a [FieldError] with the path of the
// value. Other calls are not affected.
//
// Properties, traits, contexts and integrations may contain any value that encoding/json
// accepts. The JSON equals the output of encoding/json with sorted keys, except that '<', '>' and
// '&' are not escaped. Strings, bools, numbers, times, maps with string keys, and slices
// of these do not allocate. Invalid UTF-8 becomes U+FFFD. NaN, infinities, channels,
// functions, cycles, and more than 990 levels are errors.
//
// # Attributes
//
// The field Attrs of a message accepts traits and properties as attributes of log/slog.
// A call with attributes does not allocate, and uses about 60 % of the CPU time of a call
// with a new map:
//
//	err = client.Track(&analytics.Track{
//		UserId: "019mr8mf4r",
//		Event:  "Order Completed",
//		Attrs:  []slog.Attr{slog.String("orderId", id), slog.Float64("total", total)},
//	})
//
// Attributes keep their order. Their values are encoded like map values, with these
// rules:
//
//   - A time is written in UTC with milliseconds.
//   - A Duration is a number of nanoseconds.
//   - A group is an object. A group without a key is merged into its parent, and a group
//     without attributes is omitted.
//   - A LogValuer is resolved. A panic in LogValue, or more than 1,000 steps, is a
//     [FieldError].
//   - The last of several attributes with the same key wins.
//
// A message may also have a map, such as one that many calls share. An attribute replaces
// the map's value with the same key.
//
// # Batches
//
// Calls are collected in a batch. The client sends the batch when it contains
// Config.FlushAt calls, when the next call would make it larger than [MaxBatchBytes], or when
// Config.FlushAfter has passed since the previous batch. A retry sends the same bytes, including the
// message IDs, except for sentAt, which collectors use to correct the sender's clock.
//
// A batch is a POST request to Config.Endpoint. The body has the format of [Batch], and the
// write key is the user name of Basic authentication. At most Config.MaxInFlight batches are
// sent at the same time. The next step depends on the response:
//
//   - 2xx: the calls are delivered.
//   - No response, 408, 410, 429, 460, or 5xx except 501, 505 and 511: the client retries
//     the batch. The pause doubles from half a second to a minute. The header
//     X-Retry-Count contains the number of previous attempts. Config.MaxAttempts and
//     Config.MaxTotalBackoffDuration limit the retries.
//   - One of these statuses with Retry-After, or 429 with X-RateLimit-Reset: the client
//     sends nothing for the requested time, from 1 second to 5 minutes. The attempt does not
//     count. Config.MaxRateLimitDuration limits the total time.
//   - 400 or 413: the client splits the batch in halves, and splits each half that is
//     refused, so that one bad call does not affect the others. Finding k bad calls among
//     n takes about 2·k·log2(n) requests, and at most 256; the parts that are refused
//     after that are dropped. Until a part is accepted, the client tries single calls. If
//     eight of these are refused, it drops the whole batch.
//   - Any other response, including a redirect: the batch is dropped.
//
// # Delivery
//
// A call whose method returned nil is delivered, dropped with a [DropReason], or pending.
// [Client.Stats] counts the calls in each state. Config.Callback receives the result of
// each call. The log has one entry for each lost batch.
//
// If the collector cannot be reached, calls wait for up to 12 hours while there is room: in
// a spool, or in memory up to Config.MaxBytes. If Config.MaxAttempts is set, calls in memory
// are dropped after that number of attempts. A client made by [New] makes ten attempts, as
// version 2 did. Without a spool, it drops calls after half a minute.
//
// If Config.MaxInFlight is 1, batches arrive in the order of the calls. There are two
// exceptions: parts of a refused batch, and batches that start over after
// Config.MaxAttempts. If it is higher, a batch may overtake another one. Calls within a
// batch always keep their order.
//
// # Monitoring
//
// [Client.Stats] returns counts for metrics. Config.Logger receives lost batches.
// Config.Slog also receives outages and refusals before they cost a call. Config.Callback
// receives the result of each call. Config.Value attaches a request ID or trace ID to each
// call. An http.RoundTripper reads these values with [RequestValues]. The module
// otelanalytics, in the directory of that name, exports metrics and spans to
// OpenTelemetry.
//
// # Blocking
//
// The methods for calls do not wait for the network. If Config.MaxBytes of memory is in use, or
// with a spool Config.SpoolMaxBytes of disk space, they return [ErrQueueFull].
// Config.WhenFull can make them wait or drop the oldest calls instead. [Client.Enqueue]
// limits the wait with a context.
//
// [Client.Flush], [Client.Shutdown] and [Client.Close] wait for responses until their
// context is done or Config.CloseTimeout has passed. The error contains the number of calls that were
// not delivered. Close the client before the program exits: without a spool, queued calls
// exist only in memory.
//
// Callbacks, transports and log handlers may use the client that calls them. They must
// not call a method that waits for them; see Config.Callback, Config.HTTPClient and
// Config.Logger.
//
// # Spool
//
// Config.Spool is a directory. If it is set, a call is written to a file before it is accepted.
// If the process is killed, or Close times out, the next process that opens the directory
// delivers the remaining calls with their IDs and timestamps. Calls that were being sent
// can arrive twice, with the same ID, which collectors use to remove duplicates. The first
// call opens the directory. The first use of Flush, Stats, Shutdown or Close also opens it.
// A program that may not make a call for a long time should call Stats when it starts.
//
// Each client needs its own directory. It holds a lock on the directory, and other clients
// that try to use it return an error that names the owner. After the process has exited,
// any client with the same write key can use its directory as Config.Spool. The example
// for multiple processes automates this.
//
// A spool survives the end of the process but not a loss of power, unless
// Config.SpoolSync is set: then each call waits for the storage medium. Concurrent calls
// share one write. If Config.MaxBytes of memory is in use, new calls are kept only on the
// disk, and are read back in order when memory is available.
//
// A corrupted record affects only its own call. Lost calls are counted in Drops.Damaged,
// and the log names the file and the position. The callback does not receive them, because
// their IDs are unknown. A call that cannot be written, for example because the disk is
// full or read-only, is not accepted: it returns an error that wraps [ErrSpool], and the
// next call tries again. The client never keeps such calls in memory instead.
//
// # Testing
//
// The package mockserver is a collector for tests. Its function RunT starts one, and the
// client uses its URL as Config.Endpoint.
package analytics
