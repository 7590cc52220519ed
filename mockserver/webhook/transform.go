package webhook

// A Transform changes the body of the webhook requests for a call. The argument is the result of
// [Payload], which must not be modified. The result is the new body in canonical form (see
// [Canonical]), or nil if the call is not sent. An error fails the call permanently. A Transform must
// be safe for concurrent use.
type Transform func(body []byte) ([]byte, error)
