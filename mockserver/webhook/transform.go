package webhook

import "errors"

// A Transform changes the body of the webhook requests for a call. The argument is the result of
// [Payload] with the messageId as an additional field, and must not be modified. The result is the new
// body in canonical form (see [Canonical]), or nil if the call is not sent. An error fails the call
// permanently, unless it wraps [ErrRetryTransform]. A Transform must be safe for concurrent use.
type Transform func(body []byte) ([]byte, error)

// ErrRetryTransform is an error of a [Transform] that can succeed later, for example because the machine
// was busy.
var ErrRetryTransform = errors.New("the call is retried")
