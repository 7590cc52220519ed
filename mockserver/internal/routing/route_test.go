package routing

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestRoute(t *testing.T) {
	for integrations, reason := range map[string]string{
		`{}`:                                  "",
		`{"All":true}`:                        "",
		`{"all":false,"Webhooks":true}`:       "",
		`{"all":false}`:                       "integrations.All is false and Webhooks is not enabled by name",
		`{"All":false}`:                       "integrations.All is false and Webhooks is not enabled by name",
		`{"All":false,"Webhooks":true}`:       "",
		`{"All":false,"Webhooks":{"a":1}}`:    "",
		`{"Webhooks":false}`:                  "integrations.Webhooks is false",
		`{"webhooks":false}`:                  "",
		`{"All":true,"Webhooks":false}`:       "integrations.Webhooks is false",
		`{"All":false,"webhooks":true}`:       "integrations.All is false and Webhooks is not enabled by name",
		`{"Other":false}`:                     "",
		`{"Webhooks":{"destinations":["d"]}}`: "",
		`{"Webhooks":{"destinations":["e"]}}`: "integrations.Webhooks.destinations does not name the destination",
	} {
		c := tracking.Call{Source: "web", Body: fmt.Appendf(nil, `{"integrations":%s}`, integrations)}
		deliver, got := Route(&tracking.Destination{Name: "d"}, &c)
		assert.Equal(t, reason == "", deliver, integrations)
		assert.Equal(t, reason, got, integrations)
	}
	for reason, d := range map[string]tracking.Destination{
		"": {Name: "d", Sources: []string{"ios", "web"}},
		"the destination is not connected to the source": {Name: "d", Sources: []string{"ios"}},
		"the destination is disabled":                    {Name: "d", Disabled: true},
	} {
		deliver, got := Route(&d, &tracking.Call{Source: "web", Body: []byte(`{}`)})
		assert.Equal(t, reason == "", deliver)
		assert.Equal(t, reason, got)
	}
}
