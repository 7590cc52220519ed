package mockserver

import (
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
)

// IntegrationName is the key of the Webhooks destination in a call's
// integrations object. It is case sensitive.
const IntegrationName = "Webhooks"

// route decides whether a destination gets a call. If not, it says why.
func route(d *Destination, c *Call) (deliver bool, reason string) {
	switch {
	case d.Disabled:
		return false, "the destination is disabled"
	case len(d.Sources) > 0 && !slices.Contains(d.Sources, c.Source):
		return false, "the destination is not connected to the source"
	}
	return integrationEnabled(c.Body)
}

// integrationEnabled reads a call's integrations: a destination is enabled
// unless its name is false, or All is false and its name is neither true nor an
// object.
func integrationEnabled(body []byte) (bool, string) {
	all, ours := byte('t'), byte(0)
	eachMember(body, "integrations", func(key string, value []byte) {
		switch key {
		case "All":
			all = value[0]
		case IntegrationName:
			ours = value[0]
		}
	})
	switch {
	case ours == 'f':
		return false, "integrations." + IntegrationName + " is false"
	case all == 'f' && ours != 't' && ours != '{':
		return false, "integrations.All is false and " + IntegrationName + " is not enabled by name"
	}
	return true, ""
}

// eachMember calls see with the members of the object that is the named member
// of body; of an object named twice, with those of the last.
func eachMember(body []byte, name string, see func(key string, value []byte)) {
	var object []byte
	s := jsonscan.New(body)
	_ = s.Object(func(key []byte) error {
		value, err := s.Value()
		if err == nil && string(jsonscan.Unquote(key)) == name {
			object = value
		}
		return err
	})
	if len(object) == 0 || object[0] != '{' {
		return
	}
	s = jsonscan.New(object)
	_ = s.Object(func(key []byte) error {
		value, err := s.Value()
		if err == nil {
			see(string(jsonscan.Unquote(key)), value)
		}
		return err
	})
}
