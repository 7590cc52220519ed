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

// Client queues messages and sends them in batches. It is an interface so that programs
// can have one of their own, in tests.
type Client interface {
	// Close sends what is queued, and returns when all of it is delivered or lost, or
	// Config.ShutdownTimeout is over. The error is an *UndeliveredError of the root
	// package if messages were lost, or ErrClosed if Close was called before.
	io.Closer

	// Enqueue queues a message, and returns at once. Nothing of the message is read
	// later. The error is a FieldError, ErrClosed, or says why the message cannot be
	// queued: see the package's documentation.
	Enqueue(Message) error
}

// New returns a client with the default configuration. It never fails: without a write
// key, each Enqueue does.
func New(writeKey string) Client {
	c, _ := NewWithConfig(writeKey, Config{}) // which has nothing that could be wrong
	return c
}

// NewWithConfig returns a client with a configuration. If that cannot be used, the error
// is a ConfigError, and the client nil. A client has no goroutine before its first
// message.
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
		v.client = client.New("") // its calls say what is wrong
		return v, nil
	}
	if v.client, err = client.NewWithConfig(writeKey, base); err != nil {
		return nil, config.refused(err)
	}
	return v, nil
}

// v3client is a Client over one of the root package.
type v3client struct {
	client    *client.Client
	config    *Config
	callbacks *callbacks // nil without Config.Callback
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
	}
	return v.enqueuePointer(msg)
}

// enqueuePointer enqueues a message that is a pointer.
func (v *v3client) enqueuePointer(msg Message) error {
	switch m := msg.(type) {
	case *Track:
		if m != nil {
			return v.track(*m)
		}
	case *Identify:
		if m != nil {
			return v.identify(*m)
		}
	case *Page:
		if m != nil {
			return v.page(*m)
		}
	case *Screen:
		if m != nil {
			return v.screen(*m)
		}
	case *Group:
		if m != nil {
			return v.group(*m)
		}
	case *Alias:
		if m != nil {
			return v.alias(*m)
		}
	case nil:
	default:
		if err := msg.Validate(); err != nil {
			return err
		}
		return fmt.Errorf("messages with custom types cannot be enqueued: %T", msg)
	}
	return fmt.Errorf("analytics: the message is nil: %T", msg)
}

func (v *v3client) track(m Track) error {
	c, err := begin(v, &m, "track", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	if err != nil {
		return err
	}
	return c.enqueue(&client.Track{
		Context: c.context, Integrations: m.Integrations, Properties: m.Properties,
		AnonymousId: m.AnonymousId, UserId: m.UserId, Event: m.Event, Message: c.fields,
	})
}

func (v *v3client) identify(m Identify) error {
	c, err := begin(v, &m, "identify", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	if err != nil {
		return err
	}
	return c.enqueue(&client.Identify{
		Context: c.context, Integrations: m.Integrations, Traits: m.Traits,
		AnonymousId: m.AnonymousId, UserId: m.UserId, Message: c.fields,
	})
}

func (v *v3client) page(m Page) error {
	c, err := begin(v, &m, "page", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	if err != nil {
		return err
	}
	return c.enqueue(&client.Page{
		Context: c.context, Integrations: m.Integrations, Traits: m.Properties,
		AnonymousId: m.AnonymousId, UserId: m.UserId, Name: m.Name, Message: c.fields,
	})
}

func (v *v3client) screen(m Screen) error {
	c, err := begin(v, &m, "screen", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	if err != nil {
		return err
	}
	return c.enqueue(&client.Screen{
		Context: c.context, Integrations: m.Integrations, Properties: m.Properties,
		AnonymousId: m.AnonymousId, UserId: m.UserId, Name: m.Name, Message: c.fields,
	})
}

func (v *v3client) group(m Group) error {
	c, err := begin(v, &m, "group", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	if err != nil {
		return err
	}
	return c.enqueue(&client.Group{
		Context: c.context, Integrations: m.Integrations, Traits: m.Traits,
		AnonymousId: m.AnonymousId, UserId: m.UserId, GroupId: m.GroupId, Message: c.fields,
	})
}

func (v *v3client) alias(m Alias) error {
	c, err := begin(v, &m, "alias", &m.Type, &m.MessageId, &m.Timestamp, m.Context)
	if err != nil {
		return err
	}
	return c.enqueue(&client.Alias{
		Context: c.context, Integrations: m.Integrations,
		PreviousId: m.PreviousId, UserId: m.UserId, Message: c.fields,
	})
}

// call is what the calls of all messages have in common.
type call struct {
	client  *v3client
	fields  client.Message
	context map[string]interface{} // of contextMaps; nil if the message has none
	message Message                // for the callback; nil without one
}

// contextMaps holds maps that contexts are written by.
var contextMaps = sync.Pool{New: func() interface{} { return make(map[string]interface{}, 8) }}

// begin checks a message, and begins its call. With a callback the type, the id and the
// time of the message are set, which otherwise the root package's client does faster.
func begin[M Message](v *v3client, m *M, name string, typ, id *string, timestamp *time.Time, context *Context) (call, error) {
	if err := (*m).Validate(); err != nil {
		return call{}, err
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
	return c, nil
}

// enqueue queues a call of the root package's client.
func (c *call) enqueue(m client.Call) error {
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

// fail tells that a message was not queued, and returns the error of Enqueue.
func (c *call) fail(err error) error {
	cause := err // what the callback gets
	switch {
	case err == client.ErrClosed:
		return ErrClosed
	case err == client.ErrQueueFull:
		cause, err = ErrTooManyRequests, fmt.Errorf("%w: %w", ErrTooManyRequests, err)
	case errors.As(err, new(*client.TooLargeError)):
		cause, err = ErrMessageTooBig, fmt.Errorf("%w: %w", ErrMessageTooBig, err)
	}
	if cause != ErrTooManyRequests { // of which there may be many
		c.client.config.errorf("a message was not queued: %v", err)
	}
	if c.message != nil {
		c.client.callbacks.fail(c.message, cause)
	}
	return err
}
