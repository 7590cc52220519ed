// Package analytics records what users do and sends it, in batches and in the
// background, to a collector that speaks the tracking API.
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
// There are six calls: [Client.Identify] ties a user to traits, [Client.Track]
// records an event, [Client.Page] and [Client.Screen] what was looked at,
// [Client.Group] whom a user belongs to, and [Client.Alias] that two ids are one
// user. One client serves a whole program; all its methods may be called from
// many goroutines at once.
//
// # Coming from version 2
//
// A program written for version 2 of the service's library compiles with its
// import path changed, and the fields of [Client] that it sets after [New] mean
// what they did. New programs use [NewWithConfig], which says at once what is
// wrong with its [Config]. In tests, whose configuration is not wrong, New is shorter.
//
// # The path of a call
//
// A call is checked and encoded as JSON by the goroutine that makes it, before
// the method returns. Nothing is written to the message, and nothing of it is
// read later: it may be changed, and used again, at once. What cannot be encoded
// is an error of that call, a [FieldError] that names the value, and touches no
// other call.
//
// # Values
//
// Properties, traits, contexts and integrations hold what encoding/json can
// write, and are written as it writes them, keys sorted, but with '<', '>' and
// '&' as they are. Strings, bools, numbers, times, maps with string keys and
// slices of these are the fast ones: they take no allocation.
// Bytes that are not UTF-8 become U+FFFD. NaN, the infinities, channels,
// functions, cycles and more than 990 levels are errors.
//
// # Attributes
//
// Traits and properties may also be attributes of log/slog, in the field Attrs of a
// message. Such a call is as short as a line of a log, takes less than half of the time
// that building and writing a map takes, and allocates nothing:
//
//	err = client.Track(&analytics.Track{
//		UserId: "019mr8mf4r",
//		Event:  "Order Completed",
//		Attrs:  []slog.Attr{slog.String("orderId", id), slog.Float64("total", total)},
//	})
//
// They are written in their order, as values of maps are, but for times, which are written
// in UTC with milliseconds. A Duration is a number of nanoseconds. Groups are objects; a
// group without a key is part of what it is in, one without attributes is left out. A
// LogValuer is asked for its value: a panic in LogValue, and one that never comes to an
// end after 1,000 steps, is a [FieldError].
//
// Of attributes with the same key the last counts. A message can have a map as well, with
// what many calls share: an attribute takes the place of the map's value with its key.
//
// # Batches
//
// The encoded call is copied into the open batch. The batch is sealed when it
// holds Config.FlushAt calls, when the next call would take its body over
// [MaxBatchBytes], or Config.FlushAfter after the last flush. From then on its
// bytes do not change; a retry sends the same, message ids included, but for
// sentAt, by which collectors correct a wrong clock.
//
// One goroutine, which the client's first use starts, hands sealed batches to at most
// Config.MaxInFlight senders and decides what to do with each answer:
//
//   - 2xx: the calls are delivered.
//   - No answer, 408, 410, 429, 460 and 5xx but 501, 505 and 511: the batch is
//     sent again after a pause that doubles, from half a second to a minute, and
//     X-Retry-Count says how many attempts came before. Config.MaxAttempts and
//     Config.MaxTotalBackoffDuration say when it is given up.
//   - Retry-After with one of those, or X-RateLimit-Reset with 429: nothing at all
//     is sent until then, from a second to 5 minutes, and the attempt does not count;
//     Config.MaxRateLimitDuration bounds that.
//   - 413 and 400: the batch is sent as two halves, then each half that is
//     refused, and so on, so that a bad call does not sink its neighbours. To
//     find k bad calls among n takes about 2·k·log2(n) requests, and at most
//     256; parts that are refused after those are dropped. While no part of the
//     batch has been accepted, single calls are tried: when eight of them are
//     refused as well, the whole batch is dropped.
//   - Anything else, a redirect included: the batch is dropped.
//
// # What is promised
//
// Every call that returned nil ends in exactly one of three: delivered, dropped
// with a [DropReason], or still pending. [Client.Stats] counts them, and the sum
// holds at any time; Config.Callback is told the end of each call; a batch that
// is lost is one line in the log, or one error in Config.Slog. A collector that cannot be reached for twenty
// seconds costs no call; one that is away for longer costs none within twelve hours
// for which there is room: in the memory of Config.MaxBytes, unless Config.MaxAttempts
// is set, or in a spool. A client made by New, which makes ten attempts as version 2
// did, gives calls up after half a minute unless it has a spool.
//
// With Config.MaxInFlight of 1, batches arrive in the order in which the calls
// were made, except for parts of a batch that was refused, and batches that have used
// up Config.MaxAttempts and start over. Otherwise a batch may overtake another; calls
// within a batch keep their order.
//
// # What can be watched
//
// [Client.Stats] are counts for metrics. Config.Logger is told of calls that are lost;
// Config.Slog also of outages and refusals before they cost a call. Config.Callback is told
// the end of each call, and Config.Value keeps a request or trace id beside it until then:
// a batch has calls of many requests of the program, and is sent after they have ended. An
// http.RoundTripper learns these values by [RequestValues]. The module otelanalytics, in a
// directory of that name beside this package, makes metrics and spans for OpenTelemetry of
// it all.
//
// # What may block
//
// The six calls never wait for the network. When Config.MaxBytes of memory are
// taken, or with a spool Config.SpoolMaxBytes of disk, they return [ErrQueueFull];
// with Config.WhenFull they drop the oldest calls instead, or wait, and
// [Client.Enqueue] bounds that wait by a context.
//
// [Client.Flush], [Client.Shutdown] and [Client.Close] wait for answers, until
// their context or Config.CloseTimeout ends, and say how many calls were not
// delivered. Close the client before the program ends: without a spool, what is
// queued is in memory and nowhere else.
//
// A callback, a transport and the writer of a log may use the client that calls them,
// but must not wait for their own return: Config.Callback, Config.HTTPClient and
// Config.Logger say what does.
//
// # The spool
//
// With Config.Spool, a directory, a call is in a file before it is accepted. Calls
// that the process has not delivered when it dies, by kill -9 or without memory, or
// when Close runs out of time, are delivered by the next process that opens the
// directory, with their ids and timestamps. Calls that were being sent come twice
// then, with the same id, by which collectors drop repeats. No call needs to be made
// for that: the first use of Flush, Stats, Shutdown or Close opens the directory as
// well. New does not, since the client's fields may be set after it. A program that
// may have no call to make for a long time calls Stats when it starts.
//
// A process needs a directory of its own, and so does each client in it: the first
// holds a lock, and the others get an error that names it. Any client with the same
// write key can take over the directory of a process that is gone, by setting it as
// its Config.Spool. The example of many processes does that without a person.
//
// A call is in the cache of the system, which a loss of power empties;
// Config.SpoolSync makes each call wait for the medium. Calls made at the same time
// share a write. When Config.MaxBytes of memory are used, calls are on the disk alone
// and are read back in their order, after those of an earlier process, as others are
// delivered.
//
// A damaged record costs its call and no other. Calls that are known to be lost are
// counted in Drops.Damaged, and a line in the log names the file and the place; the
// callback does not get them, since their ids are not known. A call that cannot be
// written is not accepted: it returns an [ErrSpool], and the next one tries again. That
// is so if the disk is full or read-only, if permission is missing, or if the directory
// was removed and cannot be made again. The client does not silently keep such calls in
// memory.
//
// # Testing
//
// The package mockserver beside this one is a collector for tests: its RunT starts
// one, whose URL is the client's Endpoint.
//
// # Files
//
// For those who read the source. Each file uses only those after it; the path of a call
// through them is in ARCHITECTURE.md.
//
//  1. analytics.go: the client, its start, and its use of internal/pipeline
//  2. message.go: the six calls, and their JSON
//  3. config.go: configuration
//  4. errors.go: errors, and the kinds of calls that they name
//  5. integrations.go: destinations of calls
//  6. stats.go: counts and results
//  7. batch.go: limits and context of batches
package analytics
