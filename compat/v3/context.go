package analytics

import (
	"encoding/json"
	"maps"
	"net"
	"reflect"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Context describes the origin of a message. Its JSON omits empty fields.
type Context struct {
	App       AppInfo      `json:"app,omitempty"`
	Campaign  CampaignInfo `json:"campaign,omitempty"`
	Device    DeviceInfo   `json:"device,omitempty"`
	Library   LibraryInfo  `json:"library,omitempty"`
	Location  LocationInfo `json:"location,omitempty"`
	Network   NetworkInfo  `json:"network,omitempty"`
	OS        OSInfo       `json:"os,omitempty"`
	Page      PageInfo     `json:"page,omitempty"`
	Referrer  ReferrerInfo `json:"referrer,omitempty"`
	Screen    ScreenInfo   `json:"screen,omitempty"`
	IP        net.IP       `json:"ip,omitempty"`
	Direct    bool         `json:"direct,omitempty"`
	Locale    string       `json:"locale,omitempty"`
	GroupID   string       `json:"groupId,omitempty"`
	Timezone  string       `json:"timezone,omitempty"`
	UserAgent string       `json:"userAgent,omitempty"`
	Traits    Traits       `json:"traits,omitempty"`

	// Extra contains additional fields of the JSON object. If a named field above is not
	// empty, it takes precedence over the same key in Extra.
	Extra map[string]interface{} `json:"-"`
}

// AppInfo describes an app.
type AppInfo struct {
	Name      string `json:"name,omitempty"`
	Version   string `json:"version,omitempty"`
	Build     string `json:"build,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// CampaignInfo describes the campaign that led the user to the site or app.
type CampaignInfo struct {
	Name    string `json:"name,omitempty"`
	Source  string `json:"source,omitempty"`
	Medium  string `json:"medium,omitempty"`
	Term    string `json:"term,omitempty"`
	Content string `json:"content,omitempty"`
}

// DeviceInfo describes the user's device.
type DeviceInfo struct {
	Id            string `json:"id,omitempty"`
	Manufacturer  string `json:"manufacturer,omitempty"`
	Model         string `json:"model,omitempty"`
	Name          string `json:"name,omitempty"`
	Type          string `json:"type,omitempty"`
	Version       string `json:"version,omitempty"`
	AdvertisingID string `json:"advertisingId,omitempty"`
}

// LibraryInfo describes the library that made a call. The client sets it in
// Config.DefaultContext.
type LibraryInfo struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// LocationInfo describes the user's location.
type LocationInfo struct {
	City      string  `json:"city,omitempty"`
	Country   string  `json:"country,omitempty"`
	Region    string  `json:"region,omitempty"`
	Latitude  float64 `json:"latitude,omitempty"`
	Longitude float64 `json:"longitude,omitempty"`
	Speed     float64 `json:"speed,omitempty"`
}

// NetworkInfo describes the network of the user's device.
type NetworkInfo struct {
	Bluetooth bool   `json:"bluetooth,omitempty"`
	Cellular  bool   `json:"cellular,omitempty"`
	WIFI      bool   `json:"wifi,omitempty"`
	Carrier   string `json:"carrier,omitempty"`
}

// OSInfo describes the operating system of the user's device.
type OSInfo struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// PageInfo describes the current page.
type PageInfo struct {
	Hash     string `json:"hash,omitempty"`
	Path     string `json:"path,omitempty"`
	Referrer string `json:"referrer,omitempty"`
	Search   string `json:"search,omitempty"`
	Title    string `json:"title,omitempty"`
	URL      string `json:"url,omitempty"`
}

// ReferrerInfo describes the referrer.
type ReferrerInfo struct {
	Type string `json:"type,omitempty"`
	Name string `json:"name,omitempty"`
	URL  string `json:"url,omitempty"`
	Link string `json:"link,omitempty"`
}

// ScreenInfo describes the screen of the user's device.
type ScreenInfo struct {
	Density int `json:"density,omitempty"`
	Width   int `json:"width,omitempty"`
	Height  int `json:"height,omitempty"`
}

// MarshalJSON encodes Extra and the fields that are not empty as one object.
func (ctx Context) MarshalJSON() ([]byte, error) {
	m := make(map[string]interface{}, len(ctx.Extra)+8)
	ctx.addTo(m)
	return json.Marshal(m)
}

// addTo adds the context's fields to m.
func (ctx *Context) addTo(m map[string]interface{}) {
	maps.Copy(m, ctx.Extra)
	v := reflect.ValueOf(ctx).Elem()
	for i, name := range fieldNames[v.Type()] {
		switch f := v.Field(i); {
		case name == "" || f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0 || f.Kind() == reflect.Map && f.Len() == 0:
		case f.Kind() == reflect.Struct:
			m[name] = section{f}
		default:
			m[name] = f.Interface()
		}
	}
	if text, err := ctx.IP.MarshalText(); err == nil && len(text) > 0 {
		m["ip"] = string(text) // takes less time than a net.IP, whose error encoding reports
	}
}

// fieldNames contains the JSON names of the fields of Context and its structs. A field without a
// name has an empty one.
var fieldNames = map[reflect.Type][]string{}

func init() { addNames(reflect.TypeFor[Context]()) }

func addNames(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fieldNames[t] = append(fieldNames[t], strings.TrimPrefix(name, "-"))
		if f.Type.Kind() == reflect.Struct {
			addNames(f.Type)
		}
	}
}

// A section is a struct of strings, numbers and booleans, such as AppInfo. At least one field is not
// empty. It implements wire.Appender, which is faster than encoding/json and produces the same JSON.
type section struct{ reflect.Value }

func (s section) MarshalJSON() ([]byte, error) { return json.Marshal(s.Interface()) }

func (s section) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	lead := byte('{')
	for i, name := range fieldNames[s.Type()] {
		f := s.Field(i)
		if f.IsZero() {
			continue
		}
		dst = append(append(append(dst, lead, '"'), name...), '"', ':')
		lead = ','
		var err error
		switch f.Kind() {
		case reflect.String:
			dst = wire.AppendString(dst, f.String())
		case reflect.Bool:
			dst = strconv.AppendBool(dst, f.Bool())
		case reflect.Int:
			dst = strconv.AppendInt(dst, f.Int(), 10)
		case reflect.Float64:
			dst, err = wire.AppendFloat(dst, f.Float())
		}
		if err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}
