package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

const (
	// maxSettings is the maximum size of a source's settings in bytes.
	maxSettings = 4 << 20
	// settingsWait limits how long the first batch waits for the settings.
	settingsWait = 2 * time.Second
)

// readSettings reads the settings of the source and updates the policy. It retries like a
// batch, until ctx is done. After the first response or failure, batches can be sent.
func (p *Pipeline) readSettings(ctx context.Context) {
	var tries retry.Tries
	for open := p.openGate; ; open = func() {} {
		policy := p.policy.Load()
		changed, o := p.getSettings(ctx, policy)
		if o.err == nil {
			p.policy.Store(changed)
			if p.log.verbose {
				p.log.log(ctx, entry{level: slog.LevelDebug, message: "settings read", line: "read the settings of the source"})
			}
		}
		open()
		if o.err == nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
		step, wait := retry.Exhausted, time.Duration(0)
		if policy.Classify(o.status) == retry.Retry {
			step, wait = policy.Next(&tries, p.pause(&tries, o.retryAfter), 0, time.Now())
		}
		if step != retry.Wait {
			p.log.log(ctx, entry{
				level: slog.LevelWarn, message: "settings cannot be read", attrs: []slog.Attr{errorAttr(o.err)},
				line: fmt.Sprintf("the settings of the source cannot be read; the client keeps its configuration: %v", o.err),
			})
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// openGate lets the first batch be sent.
func (p *Pipeline) openGate() {
	p.mu.Lock()
	defer p.unlock()
	if p.stats.Attempts == 0 { // after an attempt, the collector may have closed the gate
		p.outbox.gate = time.Time{}
		p.work = true
	}
}

// getSettings requests the settings once. It returns the new policy.
func (p *Pipeline) getSettings(ctx context.Context, policy *retry.Policy) (changed *retry.Policy, o outcome) {
	defer func() {
		if r := recover(); r != nil {
			o = outcome{err: p.panicked(r)}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	request := (&http.Request{
		Method: http.MethodGet,
		URL:    p.SourceURL,
		Header: http.Header{"User-Agent": p.Request.Header["User-Agent"]},
	}).WithContext(ctx)
	res, err := p.Transport.client.Do(request)
	if err != nil {
		return nil, outcome{err: p.transportError(err)}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxSettings))
	if err != nil {
		return nil, outcome{err: p.transportError(err)}
	}
	if policy.Classify(res.StatusCode) != retry.Delivered {
		return nil, outcome{
			status:     res.StatusCode,
			retryAfter: policy.RetryAfter(res.StatusCode, res.Header, time.Now()),
			err:        p.responseError(res.StatusCode, text),
		}
	}
	next, err := policy.FromSettings(text)
	if err != nil {
		return nil, outcome{status: res.StatusCode, err: errors.New(wire.Clip(p.log.secrets.redact(err.Error()), wire.MaxRepeated))}
	}
	return &next, outcome{}
}
