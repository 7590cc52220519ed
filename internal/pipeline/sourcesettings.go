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
// batch, until ctx is done. The caller has closed the gate until the time until. readSettings
// opens the gate after the first response or failure.
func (p *Pipeline) readSettings(ctx context.Context, until time.Time) {
	var tries retry.Tries
	for {
		policy := p.policy.Load()
		changed, o := p.getSettings(ctx, policy)
		if o.err == nil {
			p.policy.Store(changed)
			if p.log.verbose {
				p.log.log(ctx, entry{level: slog.LevelDebug, message: "settings read", line: "read the settings of the source"})
			}
		}
		p.openGate(until)
		if o.err == nil || ctx.Err() != nil {
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

// openGate opens the gate, unless the collector has closed it for longer than until.
func (p *Pipeline) openGate(until time.Time) {
	p.mu.Lock()
	defer p.unlock()
	if p.outbox.gate.Equal(until) {
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
			err:        p.responseError("the settings service", "SettingsEndpoint", res.StatusCode, text),
		}
	}
	next, err := policy.FromSettings(text)
	if err != nil {
		return nil, outcome{status: res.StatusCode, err: errors.New(wire.Clip(p.log.secrets.redact(err.Error()), wire.MaxRepeated))}
	}
	return &next, outcome{}
}
