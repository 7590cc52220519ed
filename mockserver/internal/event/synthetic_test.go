package event_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

func TestListCallID(t *testing.T) {
	id, user := text.Digest("list"), text.Digest("user")
	for _, kind := range []string{event.Audience, event.Trait} {
		got, ok := event.ListOfCall(event.ListCallID(kind, id+"-12", user))
		assert.True(t, ok)
		assert.Equal(t, id, got)
	}
	for _, other := range []string{
		"", "audience", "audience-", "audience-" + id, "audience-" + id + "-1", "audience-" + id + "-1-x",
		"audience-x-1-" + user, "group-" + id + "-1-" + user, "audience-" + id + "-1-" + user + "-1", id + "-1-" + user,
	} {
		_, ok := event.ListOfCall(other)
		assert.False(t, ok, other)
	}
}
