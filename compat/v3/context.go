package analytics

import (
	"encoding/json"
	"net"
	"strconv"

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

// addTo adds the context's fields to m. The values are pointers to types that implement
// wire.Appender, which is faster than encoding/json and produces the same JSON.
func (ctx *Context) addTo(m map[string]interface{}) {
	for name, value := range ctx.Extra {
		m[name] = value
	}
	add(m, "app", ctx.App, (*appInfo)(&ctx.App))
	add(m, "campaign", ctx.Campaign, (*campaignInfo)(&ctx.Campaign))
	add(m, "device", ctx.Device, (*deviceInfo)(&ctx.Device))
	add(m, "library", ctx.Library, (*libraryInfo)(&ctx.Library))
	add(m, "location", ctx.Location, (*locationInfo)(&ctx.Location))
	add(m, "network", ctx.Network, (*networkInfo)(&ctx.Network))
	add(m, "os", ctx.OS, (*osInfo)(&ctx.OS))
	add(m, "page", ctx.Page, (*pageInfo)(&ctx.Page))
	add(m, "referrer", ctx.Referrer, (*referrerInfo)(&ctx.Referrer))
	add(m, "screen", ctx.Screen, (*screenInfo)(&ctx.Screen))
	add(m, "direct", ctx.Direct, true)
	add(m, "locale", ctx.Locale, (*text)(&ctx.Locale))
	add(m, "groupId", ctx.GroupID, (*text)(&ctx.GroupID))
	add(m, "timezone", ctx.Timezone, (*text)(&ctx.Timezone))
	add(m, "userAgent", ctx.UserAgent, (*text)(&ctx.UserAgent))
	if len(ctx.IP) > 0 {
		m["ip"] = (*address)(&ctx.IP)
	}
	if len(ctx.Traits) > 0 {
		m["traits"] = map[string]interface{}(ctx.Traits)
	}
}

// add adds an entry to m, unless the field has the zero value.
func add[T comparable](m map[string]interface{}, name string, field T, entry interface{}) {
	if field != *new(T) {
		m[name] = entry
	}
}

// These types implement wire.Appender.
type (
	appInfo      AppInfo
	campaignInfo CampaignInfo
	deviceInfo   DeviceInfo
	libraryInfo  LibraryInfo
	locationInfo LocationInfo
	networkInfo  NetworkInfo
	osInfo       OSInfo
	pageInfo     PageInfo
	referrerInfo ReferrerInfo
	screenInfo   ScreenInfo
	address      net.IP
	text         string
)

func (a *appInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.text("name", a.Name).text("version", a.Version).text("build", a.Build).
		text("namespace", a.Namespace).end()
}

func (c *campaignInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.text("name", c.Name).text("source", c.Source).text("medium", c.Medium).
		text("term", c.Term).text("content", c.Content).end()
}

func (d *deviceInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.text("id", d.Id).text("manufacturer", d.Manufacturer).text("model", d.Model).
		text("name", d.Name).text("type", d.Type).text("version", d.Version).
		text("advertisingId", d.AdvertisingID).end()
}

func (l *libraryInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.text("name", l.Name).text("version", l.Version).end()
}

func (l *locationInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.text("city", l.City).text("country", l.Country).text("region", l.Region).
		number("latitude", l.Latitude).number("longitude", l.Longitude).number("speed", l.Speed).end()
}

func (n *networkInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.flag("bluetooth", n.Bluetooth).flag("cellular", n.Cellular).flag("wifi", n.WIFI).
		text("carrier", n.Carrier).end()
}

func (o *osInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.text("name", o.Name).text("version", o.Version).end()
}

func (p *pageInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.text("hash", p.Hash).text("path", p.Path).text("referrer", p.Referrer).
		text("search", p.Search).text("title", p.Title).text("url", p.URL).end()
}

func (r *referrerInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.text("type", r.Type).text("name", r.Name).text("url", r.URL).
		text("link", r.Link).end()
}

func (s *screenInfo) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return object{dst: dst}.integer("density", s.Density).integer("width", s.Width).
		integer("height", s.Height).end()
}

func (a *address) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	out, err := net.IP(*a).AppendText(append(dst, '"'))
	if err != nil {
		return dst, err
	}
	return append(out, '"'), nil
}

// MarshalText lets encoding/json write an address as text instead of base64.
func (a *address) MarshalText() ([]byte, error) { return net.IP(*a).MarshalText() }

func (t *text) AppendTo(dst wire.Buffer) (wire.Buffer, error) {
	return wire.AppendString(dst, string(*t)), nil
}

// object appends the non-empty fields of a JSON object. After an error it appends nothing.
type object struct {
	dst     []byte
	members int
	err     error
}

func (o object) key(name string) object {
	lead := byte(',')
	if o.members == 0 {
		lead = '{'
	}
	o.members++
	o.dst = append(append(append(o.dst, lead, '"'), name...), '"', ':')
	return o
}

func (o object) text(name, value string) object {
	if value == "" {
		return o
	}
	o = o.key(name)
	o.dst = wire.AppendString(o.dst, value)
	return o
}

func (o object) flag(name string, value bool) object {
	if !value {
		return o
	}
	o = o.key(name)
	o.dst = append(o.dst, "true"...)
	return o
}

func (o object) integer(name string, value int) object {
	if value == 0 {
		return o
	}
	o = o.key(name)
	o.dst = strconv.AppendInt(o.dst, int64(value), 10)
	return o
}

func (o object) number(name string, value float64) object {
	if value == 0 || o.err != nil {
		return o
	}
	o = o.key(name)
	o.dst, o.err = wire.AppendFloat(o.dst, value)
	return o
}

func (o object) end() (wire.Buffer, error) {
	if o.members == 0 {
		o.dst = append(o.dst, '{')
	}
	return append(o.dst, '}'), o.err
}
