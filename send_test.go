package analytics_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := newClient(t, c, analytics.Config{Endpoint: "https://collector.example/prefix/"})
		track(t, client, "e", 1)
		require.NoError(t, client.Close())
		p := c.all()[0]
		require.Equal(t, "https://collector.example/prefix/v1/batch", p.url)
		require.Equal(t, "write-key-0123456789", p.user)
		require.Empty(t, p.pass)
		require.Equal(t, "application/json", p.header.Get("Content-Type"))
		require.Equal(t, "analytics-go (version: "+analytics.Version+")", p.header.Get("User-Agent"))
		require.Empty(t, p.header.Get("Content-Encoding"))
	})
}

// tail is the length of the end of a body, which differs between attempts.
const tail = len(`2006-01-02T15:04:05.000Z"}`)

func TestRetriesChangeOnlySentAt(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &collector{decide: func(i int, p post) answer { return answer{status: []int{500, 503, 429, 408, 200}[i]} }}
			client := newClient(t, c, analytics.Config{Gzip: gzip})
			track(t, client, "e", 5)
			require.NoError(t, client.Close())
			posts := c.all()
			require.Len(t, posts, 5)
			for _, p := range posts {
				require.NoError(t, p.err)
				require.Equal(t, string(posts[0].raw[:len(posts[0].raw)-tail]), string(p.raw[:len(p.raw)-tail]))
				require.Equal(t, p.at.UTC().Format("2006-01-02T15:04:05.000Z"), p.body.SentAt)
			}
			require.NotEqual(t, posts[0].body.SentAt, posts[4].body.SentAt)
			require.EqualValues(t, 5, client.Stats().Attempts)
		})
	}
}

func TestTenAttempts(t *testing.T) {
	for name, a := range map[string]answer{
		"500":                {status: 500},
		"410":                {status: 410},
		"429":                {status: 429},
		"460":                {status: 460},
		"connection":         {err: errRefusedConn},
		"hang":               {hang: true},
		"nonsense waited":    {status: 503, header: http.Header{"Retry-After": {"soon"}}},
		"a time in the past": {status: 503, header: http.Header{"Retry-After": {"Thu, 29 Feb 1996 12:00:30 GMT"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &collector{decide: func(int, post) answer { return a }}
				var results []analytics.Result
				client := newClient(t, c, analytics.Config{MaxAttempts: 10, CloseTimeout: time.Hour, Callback: func(r analytics.Result) { results = append(results, r) }})
				track(t, client, "e", 20)
				err := client.Close()
				require.Len(t, c.all(), 10)
				var undelivered *analytics.UndeliveredError
				require.ErrorAs(t, err, &undelivered)
				require.Equal(t, analytics.Drops{Attempts: 20}, undelivered.Dropped)
				require.ErrorContains(t, err, "20 calls not delivered: the latest failure: ")
				require.Equal(t, undelivered.Dropped, client.Stats().Dropped)
				require.Len(t, results, 20)
				var drop *analytics.DropError
				require.ErrorAs(t, results[7].Err, &drop)
				require.Equal(t, analytics.DropAttempts, drop.Reason)
				require.Equal(t, 10, drop.Attempts)
				require.Equal(t, a.status, drop.Status)
				switch {
				case a.err != nil:
					require.ErrorIs(t, drop, errRefusedConn)
				case a.hang:
					require.ErrorContains(t, drop, "no response within 10s")
				}
			})
		})
	}
}

func TestRefusedForGood(t *testing.T) {
	for _, status := range []int{301, 302, 304, 307, 401, 403, 404, 418, 501, 505, 511} {
		synctest.Test(t, func(t *testing.T) {
			c := &collector{decide: func(int, post) answer {
				return answer{status: status, header: http.Header{"Location": {"https://elsewhere.example/"}, "Retry-After": {"5"}}, body: strings.NewReader("why: 100%d\n%s")}
			}}
			var log lines
			client := newClient(t, c, analytics.Config{Logger: log.logger()})
			track(t, client, "e", 20)
			err := client.Close()
			require.ErrorContains(t, err, strconv.Itoa(status))
			require.Len(t, c.all(), 1)
			require.Equal(t, analytics.Drops{Refused: 20}, client.Stats().Dropped)
			require.Equal(t, 1, log.count(), "a lost batch is one line")
			require.Contains(t, log.String(), fmt.Sprintf("lost 20 calls: refused, attempt 1: the collector responded with %d", status))
			require.Contains(t, log.String(), `"why: 100%d\n%s"`)
		})
	}
}

// An outage of 20 seconds does not lose a call, regardless of the kind of failure.
func TestOutage(t *testing.T) {
	for name, down := range map[string]answer{
		"refuses": {err: errRefusedConn}, "hangs": {hang: true}, "500": {status: 500}, "429": {status: 429},
	} {
		for _, gzip := range []bool{false, true} {
			t.Run(fmt.Sprint(name, gzip), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					c := &collector{decide: func(i int, p post) answer {
						if p.at.Sub(start) < 20*time.Second {
							return down
						}
						return answer{}
					}}
					client := newClient(t, c, analytics.Config{CloseTimeout: time.Hour, Gzip: gzip})
					for i := range 1000 {
						before := time.Now()
						require.NoError(t, client.Track(&analytics.Track{Event: strconv.Itoa(i), UserId: "u"}))
						require.Zero(t, time.Since(before), "a caller was held")
						time.Sleep(20 * time.Millisecond)
					}
					requireSum(t, client.Stats())
					require.NoError(t, client.Close())
					require.EqualValues(t, 1000, client.Stats().Delivered)
					require.Zero(t, client.Stats().Bytes)
					require.Len(t, c.taken("event"), 1000)
				})
			})
		}
	}
}

func TestRetryAfterHoldsThePipeline(t *testing.T) {
	for name, header := range map[string]func() string{
		"seconds": func() string { return "7" },
		"date":    func() string { return time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := &collector{decide: func(i int, p post) answer {
					if i < 30 && p.body.Batch[0]["event"] == "a-000" {
						return answer{status: 429, header: http.Header{"Retry-After": {header()}}}
					}
					return answer{}
				}}
				client := newClient(t, c, analytics.Config{FlushAt: 1, CloseTimeout: time.Hour})
				track(t, client, "a", 1)
				synctest.Wait()
				track(t, client, "b", 6)
				time.Sleep(7*time.Second - time.Millisecond)
				synctest.Wait()
				require.Len(t, c.all(), 1, "a batch was sent while the collector had asked for quiet")
				time.Sleep(time.Millisecond)
				synctest.Wait()
				for _, p := range c.all()[1:] {
					require.Equal(t, 7*time.Second, p.at.Sub(start))
				}
				// Retries after a Retry-After do not count as attempts.
				require.NoError(t, client.Close())
				require.Greater(t, c.taken("event")["a-000"], 20)
				require.EqualValues(t, 7, client.Stats().Delivered)
			})
		})
	}
}

func TestRetryAfterIsCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := first(answer{status: 503, header: http.Header{"Retry-After": {"86400"}}})
		client := newClient(t, c, analytics.Config{CloseTimeout: time.Hour})
		track(t, client, "a", 1)
		require.NoError(t, client.Close())
		require.Equal(t, 300*time.Second, c.all()[1].at.Sub(c.all()[0].at))
	})
}

// If the collector's size limit is lower than the service's, the client sends all calls in smaller
// batches. If the collector refuses everything, the client does not try each call separately.
func TestTooLargeBatchesAreSplit(t *testing.T) {
	for limit, requests := range map[int]int{100_000: 15, 0: 31 + 8} {
		synctest.Test(t, func(t *testing.T) {
			c := &collector{decide: when(answer{status: 413}, func(_ int, p post) bool {
				return len(p.raw) > limit
			})}
			client := newClient(t, c, analytics.Config{FlushAt: 1000})
			const calls = 960 // each call has 500 bytes, so they have about 480 KB in total
			for range calls {
				require.NoError(t, client.Track(&analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{"pad": strings.Repeat("x", 358)}}))
			}
			err := client.Close()
			require.Len(t, c.all(), requests)
			if limit > 0 {
				require.NoError(t, err)
				require.EqualValues(t, calls, client.Stats().Delivered)
			} else {
				require.EqualValues(t, calls, client.Stats().Dropped.Refused)
			}
		})
	}
}

// bad returns a function that responds with 400 to batches that contain one of the events, and with
// 200 to all others.
func bad(events ...string) func(int, post) answer {
	return func(_ int, p post) answer {
		for _, call := range p.body.Batch {
			if slices.Contains(events, call["event"].(string)) {
				return answer{status: 400, body: strings.NewReader("bad call")}
			}
		}
		return answer{}
	}
}

func TestHalving(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		for _, tt := range []struct {
			name   string
			decide func(int, post) answer
			want   []int // number of calls in each request
			lost   []string
		}{
			{"first of 20", bad("e-000"), []int{20, 10, 10, 5, 5, 2, 3, 1, 1}, []string{"e-000"}},
			{"last of 20", bad("e-019"), []int{20, 10, 10, 5, 5, 2, 3, 1, 2, 1, 1}, []string{"e-019"}},
			{"two in one half", bad("e-001", "e-003"), []int{20, 10, 10, 5, 5, 2, 3, 1, 1, 1, 2, 1, 1}, []string{"e-001", "e-003"}},
			{"one in each half", bad("e-001", "e-019"), []int{20, 10, 10, 1, 1, 3, 5, 5, 5, 2, 3, 1, 2, 1, 1}, []string{"e-001", "e-019"}},
			{"all 400", func(int, post) answer { return answer{status: 400} }, []int{20, 10, 10, 1, 1, 1, 1, 1, 1, 1, 1}, all20},
			{"all 413", func(int, post) answer { return answer{status: 413} }, []int{20, 10, 10, 1, 1, 1, 1, 1, 1, 1, 1}, all20},
			{"halves differ", func(i int, p post) answer {
				return answer{status: []int{413, 413, 400, 200, 200, 200, 200, 200, 200}[i]}
			}, []int{20, 10, 10, 1, 1, 3, 5, 5, 5}, nil},
			{"over a size", func(i int, p post) answer {
				if len(p.body.Batch) > 15 {
					return answer{status: 413}
				}
				return answer{}
			}, []int{20, 10, 10}, nil},
			{"a half fails for a time", func(i int, p post) answer {
				return answer{status: []int{400, 503, 200, 429, 500, 200}[i]}
			}, []int{20, 10, 10, 10, 10, 10}, nil},
			{"a half is refused for good", func(i int, p post) answer {
				return answer{status: []int{400, 401, 200}[i]}
			}, []int{20, 10, 10}, all20[:10]},
			{"then the other one is", func(i int, p post) answer {
				return answer{status: []int{400, 400, 401, 200, 200, 200, 200}[i]}
			}, []int{20, 10, 10, 1, 1, 3, 5}, all20[10:]},
		} {
			t.Run(fmt.Sprint(tt.name, gzip), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := &collector{decide: tt.decide}
					lost := []string{}
					client := newClient(t, c, analytics.Config{Gzip: gzip, CloseTimeout: time.Hour, Callback: func(r analytics.Result) {
						if r.Err != nil {
							lost = append(lost, r.MessageId)
						}
					}})
					for i := range 20 {
						m := analytics.Track{Event: name("e", i), UserId: "} \\\" {", Properties: map[string]interface{}{"nested": map[string]interface{}{"}": []int{1}}}}
						m.MessageId = m.Event
						require.NoError(t, client.Track(&m))
					}
					err := client.Close()
					require.Equal(t, tt.want, c.sizes())
					slices.Sort(lost)
					if tt.lost == nil {
						require.NoError(t, err)
						require.Empty(t, lost)
					} else {
						require.Error(t, err)
						require.Equal(t, tt.lost, lost)
					}
					s := client.Stats()
					require.Equal(t, analytics.Drops{Refused: int64(len(tt.lost))}, s.Dropped)
					require.EqualValues(t, 20-len(tt.lost), s.Delivered)
					require.Zero(t, s.Bytes)
					requireSameCalls(t, c.all())
				})
			})
		}
	}
}

var all20 = func() (names []string) {
	for i := range 20 {
		names = append(names, name("e", i))
	}
	return names
}()

// requireSameCalls checks that the parts of a batch contain the same bytes as the batch.
func requireSameCalls(t *testing.T, posts []post) {
	t.Helper()
	whole := posts[0].raw[len(`{"batch":[`):bytes.LastIndex(posts[0].raw, []byte(`],"context"`))]
	for _, p := range posts {
		require.NoError(t, p.err)
		part := p.raw[len(`{"batch":[`):bytes.LastIndex(p.raw, []byte(`],"context"`))]
		require.True(t, bytes.Contains(whole, part))
	}
}

func TestInFlightIsBounded(t *testing.T) {
	for _, limit := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			var now, most atomic.Int64
			c := &collector{}
			c.decide = func(i int, p post) answer {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
				return answer{}
			}
			client := newClient(t, c, analytics.Config{FlushAt: 1, MaxInFlight: limit, CloseTimeout: time.Hour})
			track(t, client, "e", 50)
			require.NoError(t, client.Close())
			require.EqualValues(t, limit, most.Load())
			require.Len(t, c.all(), 50)
		})
	}
}

// If MaxInFlight is 1, a retry delays the following batches.
func TestOneInFlightKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		c := &collector{decide: func(int, post) answer { return answer{status: []int{200, 500, 429}[rnd.IntN(3)]} }}
		var order []string
		client := newClient(t, c, analytics.Config{FlushAt: 3, MaxInFlight: 1, CloseTimeout: time.Hour, Callback: func(r analytics.Result) {
			require.NoError(t, r.Err)
			order = append(order, r.MessageId)
		}})
		for i := range 100 {
			require.NoError(t, client.Track(&analytics.Track{Event: name("e", i), UserId: "u", Message: analytics.Message{MessageId: name("e", i)}}))
		}
		require.NoError(t, client.Close())
		last := -1
		for _, p := range c.all() {
			n, err := strconv.Atoi(strings.TrimPrefix(p.body.Batch[0]["event"].(string), "e-"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, last, "a batch overtook another")
			last = n
		}
		require.Len(t, order, 100)
		require.True(t, slices.IsSorted(order))
	})
}

func TestUserTransportPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{decide: func(i int, p post) answer {
			if i < 3 {
				panic("transport trouble")
			}
			return answer{}
		}}
		client := newClient(t, c, analytics.Config{})
		track(t, client, "e", 3)
		require.NoError(t, client.Close())
		require.Len(t, c.all(), 4)
	})
}

// The client retries a batch if the transport calls runtime.Goexit, as FailNow of a test does.
func TestUserTransportExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{decide: func(i int, p post) answer {
			if i%2 == 1 {
				runtime.Goexit()
			}
			return answer{}
		}}
		client := newClient(t, c, analytics.Config{FlushAt: 1, MaxInFlight: 1})
		track(t, client, "e", 4)
		require.NoError(t, client.Close())
		require.EqualValues(t, 4, client.Stats().Delivered)
	})
}

func TestTimeout(t *testing.T) {
	for _, tt := range []struct{ set, want time.Duration }{{0, 10 * time.Second}, {time.Minute, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c := &collector{decide: func(i int, p post) answer { return answer{hang: i == 0} }}
			client := analytics.New("key")
			client.Client = http.Client{Transport: c, Timeout: tt.set}
			track(t, client, "e", 20)
			require.NoError(t, client.Shutdown(t.Context()))
			require.InDelta(t, tt.want, c.all()[1].at.Sub(start), float64(100*time.Millisecond))
		})
	}
}

// A 2xx response counts as a delivery even if its body cannot be read.
func TestAnswerBodyDoesNotMatter(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"endless": endless{}, "reset": &brokenReader{}, "not JSON": strings.NewReader("ok"), "empty": strings.NewReader(""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := always(answer{body: body})
				client := newClient(t, c, analytics.Config{})
				track(t, client, "e", 1)
				require.NoError(t, client.Close())
				require.Len(t, c.all(), 1)
			})
		})
	}
}

// A transport may read a body after it has returned the response, and may change the request. Other
// batches are not affected.
func TestCarelessTransport(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var late [][]io.Reader // two readers per request: the body, and another copy from GetBody
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				require.Equal(t, "https://api.segment.io/v1/batch", r.URL.String())
				require.NotContains(t, r.Header, "X-Added")
				r.URL.Host = "elsewhere.example"
				r.Header.Set("X-Added", "1")
				head := make([]byte, 30)
				_, err := io.ReadFull(r.Body, head)
				require.NoError(t, err)
				again, err := r.GetBody()
				require.NoError(t, err)
				late = append(late, []io.Reader{io.MultiReader(bytes.NewReader(head), r.Body), again})
				return answer{status: []int{200, 500}[len(late)%2]}.response(r), nil
			})
			client := newClient(t, transport, analytics.Config{FlushAt: 10, Gzip: gzip, MaxInFlight: 1})
			for i := range 5 {
				track(t, client, name("e", i), 10)
				require.NoError(t, client.Flush(t.Context()))
			}
			require.NoError(t, client.Close())
			require.Len(t, late, 10)
			for i, bodies := range late {
				for _, b := range bodies {
					r, err := http.NewRequest(http.MethodPost, "/", b)
					require.NoError(t, err)
					if gzip {
						r.Header.Set("Content-Encoding", "gzip")
					}
					p := readPost(r)
					require.NoError(t, p.err)
					require.Len(t, p.body.Batch, 10)
					for n, call := range p.body.Batch {
						require.Equal(t, name(name("e", i/2), n), call["event"])
					}
				}
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

type brokenReader struct{}

func (*brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

func TestSilentUnlessAsked(t *testing.T) {
	for _, tt := range []struct {
		debug   string
		verbose bool
		loud    bool
	}{{"", false, false}, {"other", false, false}, {"analytics", false, true}, {"", true, true}} {
		t.Setenv("DEBUG", tt.debug)
		synctest.Test(t, func(t *testing.T) {
			var log lines
			c := &collector{decide: func(i int, p post) answer {
				return answer{status: []int{500, 200}[i], body: strings.NewReader("you sent write-key-0123456789")}
			}}
			client := newClient(t, c, analytics.Config{Logger: log.logger(), Verbose: tt.verbose})
			require.NoError(t, client.Track(&analytics.Track{Event: "secret-payload", UserId: "write-key-0123456789"}))
			require.NoError(t, client.Close())
			require.NotContains(t, log.String(), "write-key-0123456789")
			require.Equal(t, tt.loud, strings.Contains(log.String(), "secret-payload"))
			require.Equal(t, tt.loud, log.count() > 0, log.String())
		})
	}
}
