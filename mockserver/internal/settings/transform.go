package settings

import (
	"errors"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// errNoTransforms is the error of a transform without a function that compiles it.
var errNoTransforms = errors.New("requires a collector that runs programs")

// Transform returns the compiled program of a destination, or nil without a program. If the program
// does not compile, the transform returns an error that retries calls, because the program can be
// fixed. compile may be nil.
func Transform(compile func(string) (webhook.Transform, error), program string) webhook.Transform {
	if program == "" {
		return nil
	}
	err := errNoTransforms
	if compile != nil {
		var transform webhook.Transform
		if transform, err = compile(program); err == nil {
			return transform
		}
	}
	err = fmt.Errorf("%w; %w", err, webhook.ErrRetryTransform)
	return func([]byte) ([]byte, error) { return nil, err }
}

// TransformProblem returns the [*webhook.FieldError] of a destination's program, or nil. compile may be nil.
func TransformProblem(compile func(string) (webhook.Transform, error), program string) error {
	if program == "" {
		return nil
	}
	if compile == nil {
		return &webhook.FieldError{Field: "transform", Problem: errNoTransforms.Error(), Hint: "use the command collector, or set Transforms in mockserver.Config"}
	}
	if _, err := compile(program); err != nil {
		return &webhook.FieldError{Field: "transform", Problem: "is not a valid program: " + err.Error(), Hint: "fix the program; see docs/webhooks.md"}
	}
	return nil
}

// TransformProblems returns a [*webhook.FieldError] for each invalid program.
func (s Settings) TransformProblems(compile func(string) (webhook.Transform, error)) []error {
	return located("destinations", s.Destinations, func(d tracking.Destination) error { return TransformProblem(compile, d.Transform) })
}
