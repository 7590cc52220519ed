package analytics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Client queues messages and sends them in batches. It is an interface, so tests can
// replace it.
type Client interface {
	// Close sends the queued messages. It returns when all of them are delivered or lost,
	// or after Config.ShutdownTimeout. The error is an *UndeliveredError of the root
	// package if messages were lost, or ErrClosed after the first call.
	io.Closer

	// Enqueue queues a message and returns immediately. The caller may modify the message
	// afterwards. The error is a FieldError, ErrClosed, or the reason why the message was
	// not queued; see the package documentation.
	Enqueue(Message) error
}

// New returns a client with the default configuration. It never fails; with a missing or
// malformed write key, Enqueue returns an error.
func New(writeKey string) Client {
	c, err := NewWithConfig(writeKey, Config{})
	if err != nil { // the write key is invalid
		c, _ = NewWithConfig("", Config{})
		c.(*v3client).client = client.New(writeKey)
	}
	return c
}

// NewWithConfig returns a client. The error is a ConfigError, or describes a malformed write
// key. The client starts its first goroutine with the first message.
func NewWithConfig(writeKey string, config Config) (Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	v := &v3client{config: &config}
	base := config.base()
	if config.Callback != nil {
		v.callbacks = newCallbacks(config.Callback, config.errorf)
		base.Callback, base.Value = v.callbacks.result, messageOf
	}
	if strings.TrimSpace(writeKey) == "" {
		v.client = client.New("") // Enqueue reports the missing write key
		return v, nil
	}
	if v.client, err = client.NewWithConfig(writeKey, base); err != nil {
		return nil, config.baseError(writeKey, err)
	}
	return v, nil
}

// v3client implements Client with a client of the root package.
type v3client struct {
	client    *client.Client
	config    *Config
	callbacks *callbacks // nil if Config.Callback is nil
	closed    atomic.Bool
}

func (v *v3client) Close() error {
	if v.closed.Swap(true) {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeout(context.Background(), v.config.ShutdownTimeout)
	defer cancel()
	err := v.client.Shutdown(ctx)
	if v.callbacks != nil {
		v.callbacks.wait(ctx.Done())
	}
	return err
}

func (v *v3client) Enqueue(msg Message) error {
	switch m := msg.(type) {
	case Track:
		return v.track(m)
	case Identify:
		return v.identify(m)
	case Page:
		return v.page(m)
	case Screen:
		return v.screen(m)
	case Group:
		return v.group(m)
	case Alias:
		return v.alias(m)
	case *Track:
		return enqueuePointer(m, v.track)
	case *Identify:
		return enqueuePointer(m, v.identify)
	case *Page:
		return enqueuePointer(m, v.page)
	case *Screen:
		return enqueuePointer(m, v.screen)
	case *Group:
		return enqueuePointer(m, v.group)
	case *Alias:
		return enqueuePointer(m, v.alias)
	case nil:
		return fmt.Errorf("analytics: the message is nil: %T", msg)
	}
	if err := msg.Validate(); err != nil {
		return err
	}
	return fmt.Errorf("messages with custom types cannot be enqueued: %T", msg)
}

// enqueuePointer enqueues a message that was passed as a pointer.
func enqueuePointer[M Message](m *M, enqueue func(M) error) error {
	if m == nil {
		return fmt.Errorf("analytics: the message is nil: %T", m)
	}
	return enqueue(*m)
}

func (v *v3client) track(m Track) error {
	c := begin(v, &m, "track", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	return c.enqueue(&client.Track{
		Context: c.context, Integrations: m.Integrations, Properties: m.Properties,
		AnonymousId: m.AnonymousId, UserId: m.UserId, Event: m.Event, Message: c.fields,
	})
}

func (v *v3client) identify(m Identify) error {
	c := begin(v, &m, "identify", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	return c.enqueue(&client.Identify{
		Context: c.context, Integrations: m.Integrations, Traits: m.Traits,
		AnonymousId: m.AnonymousId, UserId: m.UserId, Message: c.fields,
	})
}

func (v *v3client) page(m Page) error {
	c := begin(v, &m, "page", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	return c.enqueue(&client.Page{
		Context: c.context, Integrations: m.Integrations, Traits: m.Properties,
		AnonymousId: m.AnonymousId, UserId: m.UserId, Name: m.Name, Message: c.fields,
	})
}

func (v *v3client) screen(m Screen) error {
	c := begin(v, &m, "screen", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	return c.enqueue(&client.Screen{
		Context: c.context, Integrations: m.Integrations, Properties: m.Properties,
		AnonymousId: m.AnonymousId, UserId: m.UserId, Name: m.Name, Message: c.fields,
	})
}

func (v *v3client) group(m Group) error {
	c := begin(v, &m, "group", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	return c.enqueue(&client.Group{
		Context: c.context, Integrations: m.Integrations, Traits: m.Traits,
		AnonymousId: m.AnonymousId, UserId: m.UserId, GroupId: m.GroupId, Message: c.fields,
	})
}

func (v *v3client) alias(m Alias) error {
	c := begin(v, &m, "alias", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	return c.enqueue(&client.Alias{
		Context: c.context, Integrations: m.Integrations,
		PreviousId: m.PreviousId, UserId: m.UserId, Message: c.fields,
	})
}

// call is a message that is being converted to a call of the root package's client.
type call struct {
	client  *v3client
	fields  client.Message
	context map[string]interface{} // taken from contextMaps; nil without a context
	message Message                // nil if there is no callback
	invalid error                  // from Validate; nil if the message is valid
}

// contextMaps is a pool of maps for contexts.
var contextMaps = sync.Pool{New: func() interface{} { return make(map[string]interface{}, 8) }}

// begin validates a message and begins its call. If there is a callback, begin sets the
// message's type, ID and time. Otherwise the root package's client sets them, which is faster.
func begin[M Message](v *v3client, m *M, name string, typ, id *string, timestamp *time.Time, context *Context) call {
	if err := (*m).Validate(); err != nil {
		return call{invalid: err}
	}
	c := call{client: v}
	if v.callbacks != nil {
		*typ = name
		if *id == "" {
			*id = string(wire.AppendID(nil))
		}
		if timestamp.IsZero() {
			*timestamp = time.Now()
		}
		c.message = *m
	}
	c.fields.MessageId = *id
	if !timestamp.IsZero() {
		c.fields.Timestamp = string(wire.AppendTime(nil, *timestamp))
	}
	if context != nil {
		c.context = contextMaps.Get().(map[string]interface{})
		context.addTo(c.context)
	}
	return c
}

// enqueue queues a call in the root package's client, unless its message is invalid.
func (c *call) enqueue(m client.Call) error {
	if c.invalid != nil {
		return c.invalid
	}
	ctx := context.Background()
	if c.message != nil {
		ctx = context.WithValue(ctx, messageKey{}, c.message)
	}
	err := c.client.client.Enqueue(ctx, m)
	if n := len(c.context); n > 0 {
		clear(c.context)
		if n <= 64 {
			contextMaps.Put(c.context)
		}
	}
	if err == nil {
		return nil
	}
	return c.fail(err)
}

// fail reports to the callback that a message was not queued. It returns the error for Enqueue.
func (c *call) fail(err error) error {
	cause := err // the error for the callback
	switch {
	case err == client.ErrClosed:
		return ErrClosed
	case err == client.ErrQueueFull:
		cause, err = ErrTooManyRequests, fmt.Errorf("%w: %w", ErrTooManyRequests, err)
	case errors.As(err, new(*client.TooLargeError)):
		cause, err = ErrMessageTooBig, fmt.Errorf("%w: %w", ErrMessageTooBig, err)
	}
	if cause != ErrTooManyRequests { // not logged, because it may occur often
		c.client.config.errorf("a message was not queued: %v", err)
	}
	if c.message != nil {
		c.client.callbacks.fail(c.message, cause)
	}
	return err
}
