// Package analytics records what users do and sends it, in batches and in the
// background, to a collector that speaks the tracking API.
//
//	client := analytics.New("YOUR_WRITE_KEY")
//	defer client.Close()
//
//	err := client.Track(&analytics.Track{
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
// wrong with its [Config].
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
// slices of these are the fast ones: they take no reflection and no allocation.
// Bytes that are not UTF-8 become U+FFFD. NaN, the infinities, channels,
// functions, cycles and more than 990 levels are errors.
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
//     sent again after a pause that doubles, at most Config.MaxAttempts times.
//   - Retry-After with one of those: nothing at all is sent until then, at most
//     5 minutes, and the attempt does not count.
//   - 413 and 400: the batch is sent as two halves, then each half that is
//     refused, and so on, so that a bad call does not sink its neighbours. To
//     find k bad calls among n takes about 2·k·log2(n) requests, and at most
//     256; what is refused after those is dropped with its neighbours. While
//     nothing of the batch has been taken, single calls are tried: when eight
//     of them are refused as well, it is the batch as a whole that the collector
//     refuses, and it is dropped.
//   - Anything else, a redirect included: the batch is dropped.
//
// # What is promised
//
// Every call that returned nil ends in exactly one of three: delivered, dropped
// with a [DropReason], or still pending. [Client.Stats] counts them, and the sum
// holds at any time; Config.Callback is told the end of each call; a batch that
// is lost is one line in the log. A collector that was out of reach for twenty
// seconds has cost no call.
//
// With Config.MaxInFlight of 1, batches arrive in the order in which the calls
// were made, but for the halves of a batch that was refused and, with a spool,
// batches that had used up Config.MaxAttempts. Otherwise a batch may overtake
// another; calls within a batch keep their order.
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
// # The spool
//
// With Config.Spool, a directory, a call is in a file before it is accepted. What
// the process has not delivered when it dies, by kill -9 or as it runs out of
// memory, or when Close runs out of time, the next one delivers that opens the
// directory: with the ids and the timestamps that the calls were made with. What
// was under way comes twice then, with the same id, by which collectors drop
// repeats. No call needs to be made to have it sent: the first use of Flush, Stats,
// Shutdown or Close opens the directory as well. New does not, since the client's
// fields may be set after it: a program that may long have no call to make asks for
// its Stats as it starts.
//
// A process needs a directory of its own, and so does each client in it: the
// first holds a lock, and the others get an error that names it. A directory
// whose process is gone for good is adopted by any client with the same write key
// and that directory as its Config.Spool. See the example of many processes for a
// way in which that happens by itself.
//
// A call is in the system's cache then, which the loss of power empties;
// Config.SpoolSync has each call wait for the medium. Calls that are made at the
// same time share a write. When Config.MaxBytes of memory are taken, calls are on
// the disk alone and are read back, in their order, as others are delivered:
// behind what is there already, what is left of an earlier process included.
//
// A record that is damaged costs its call and no other. Those known to be lost
// are counted in Drops.Damaged, and a line in the log says in which file and
// where; the callback is not told, since nobody knows their ids. A call that
// cannot be written, to a full disk, one that is read-only, without permission,
// or since the directory was removed and cannot be made again, is not accepted: it
// returns an error, an [ErrSpool], and the next one tries again. There is no
// falling back to memory behind the caller's back.
//
// # Testing
//
// The package mockserver beside this one is a collector for tests: its RunT starts
// one, whose URL is the client's Endpoint.
package analytics
