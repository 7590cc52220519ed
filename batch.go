package analytics

import (
	"context"
	"fmt"
	"maps"

	"github.com/seed-45eadc4a/analytics-go/internal/pipeline"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Version is the version of the client.
const Version = "0.2.0"

// Size limits of the service.
const (
	MaxCallBytes  = pipeline.MaxCallBytes  // 32,768 bytes of one call as JSON
	MaxBatchBytes = pipeline.MaxBatchBytes // 512,000 bytes of one request body, before compression
)

// DefaultContext is the context of all batches unless Config.Context is set. Collectors
// merge it into each call. A client reads DefaultContext at its first call, and adds a
// library entry if there is none. MarshalJSON methods of its values must not use a client,
// because the client waits for them to return.
var DefaultContext = map[string]interface{}{
	"library": map[string]interface{}{
		"name":    "analytics-go",
		"version": Version,
	},
}

// maxContextBytes limits the batch context, because collectors merge it into each call.
const maxContextBytes = MaxCallBytes

// encodeBatchContext returns the part of a request body between the last call and the batch ID.
func encodeBatchContext(context map[string]interface{}) ([]byte, error) {
	if context == nil {
		context = DefaultContext
	}
	if _, ok := context["library"]; !ok {
		with := map[string]interface{}{"library": map[string]interface{}{"name": "analytics-go", "version": Version}}
		maps.Copy(with, context)
		context = with
	}
	text, err := wire.AppendMap([]byte(`],"context":`), context, "context")
	if err != nil {
		return nil, fmt.Errorf("analytics: batch %w", err)
	}
	text = append(text, `,"messageId":"`...)
	if n := len(text); n > maxContextBytes {
		return nil, fmt.Errorf("analytics: the batch context is %d bytes as JSON, over the limit of %d", n, maxContextBytes)
	}
	return text, nil
}

// RequestValues returns the values of Config.Value for the calls of a request, in the order of
// the calls. ctx is the context of the request. An http.RoundTripper can call it, for example one
// from Config.WrapTransport. It returns nil if Config.Value is not set, or if the request is not
// from a client.
func RequestValues(ctx context.Context) []interface{} { return pipeline.RequestValues(ctx) }
