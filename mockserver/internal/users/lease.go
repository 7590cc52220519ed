package users

import (
	"context"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

const (
	// leaseTime is the duration of a lease. A process that restarts with the same instance name
	// gets its leases back immediately.
	leaseTime = 30 * time.Second
	// leaseRenewal is the interval between renewals.
	leaseRenewal = 5 * time.Second
)

// A claim is the part of a record that describes its lease.
type claim struct {
	// Secret makes the messageIds unpredictable. Otherwise a sender could use one of them, and
	// the collector's call would be dropped as a duplicate.
	Secret string `json:"secret"`
	// Instance is the last process that acquired the lease, or empty. Until is the end of the lease.
	Instance string    `json:"instance,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

func (c *claim) claimed() *claim { return c }

// take acquires or renews the lease for an instance, unless another instance has it.
func (c *claim) take(instance string) error {
	now := time.Now()
	if c.Instance != "" && c.Instance != instance && now.Before(c.Until) {
		return errNoWork
	}
	c.Instance, c.Until = instance, now.Add(leaseTime).UTC()
	return nil
}

// renew renews the lease, unless another instance has acquired it or the record was deleted and
// created again.
func (c *claim) renew(taken claim) error {
	if c.Secret != taken.Secret || c.Instance != taken.Instance {
		return errNoWork
	}
	return c.take(taken.Instance)
}

// end releases the lease.
func (c *claim) end() { c.Until = time.Time{} }

// A lease gives this process the right to work on a record. The method note renews it.
type lease[R any, P claimable[R]] struct {
	*Service
	key    string    // key of the record
	record R         // last stored version of the record
	stored time.Time // time when record was stored
}

// claimable is a pointer to a record with a claim.
type claimable[R any] interface {
	*R
	claimed() *claim
}

// begin acquires the lease. It returns errNoWork if another process has the lease or if the
// function begin does.
func (l *lease[R, P]) begin(ctx context.Context, begin func(*R) error) (err error) {
	l.stored = time.Now()
	l.record, err = state.Update(ctx, l.state, l.key, func(r *R) error {
		c := P(r).claimed()
		if c.Secret == "" {
			return errNoWork // the record was deleted
		}
		if err := begin(r); err != nil {
			return err
		}
		return c.take(l.config.Instance)
	})
	return err
}

// note changes the record and renews the lease, unless the lease was lost.
func (l *lease[R, P]) note(ctx context.Context, change func(*R)) error {
	now := time.Now()
	record, err := state.Update(ctx, l.state, l.key, func(r *R) error {
		if err := P(r).claimed().renew(*P(&l.record).claimed()); err != nil {
			return err
		}
		change(r)
		return nil
	})
	if err == nil {
		l.record, l.stored = record, now
	}
	return err
}

// release ends the lease if this process is stopping, so that another process can continue.
func (l *lease[R, P]) release() {
	if !l.work.stopping() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.note(ctx, func(r *R) { P(r).claimed().end() }) // if it fails, the lease expires
}
