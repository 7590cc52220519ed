package analytics

import "time"

// Properties are the properties of a Track, Page or Screen. Any key and any value that
// encoding/json can write will do; the methods set the keys that destinations know. Each
// changes the map, which must not be nil, and returns it, so that calls can be chained:
//
//	analytics.NewProperties().SetRevenue(25.5).SetCurrency("USD").Set("coupon", "spring")
type Properties map[string]interface{}

// NewProperties returns empty properties.
func NewProperties() Properties { return make(Properties, 10) }

// Set sets any property.
func (p Properties) Set(name string, value interface{}) Properties {
	p[name] = value
	return p
}

// SetRevenue sets "revenue", the amount of money that an event brought in.
func (p Properties) SetRevenue(revenue float64) Properties { return p.Set("revenue", revenue) }

// SetCurrency sets "currency", as an ISO 4217 code such as "USD".
func (p Properties) SetCurrency(currency string) Properties { return p.Set("currency", currency) }

// SetValue sets "value", what an event is worth where that is no revenue.
func (p Properties) SetValue(value float64) Properties { return p.Set("value", value) }

// SetPath sets "path", of the URL of a page.
func (p Properties) SetPath(path string) Properties { return p.Set("path", path) }

// SetReferrer sets "referrer", the URL of the page before.
func (p Properties) SetReferrer(referrer string) Properties { return p.Set("referrer", referrer) }

// SetTitle sets "title", of a page.
func (p Properties) SetTitle(title string) Properties { return p.Set("title", title) }

// SetURL sets "url", of a page.
func (p Properties) SetURL(url string) Properties { return p.Set("url", url) }

// SetName sets "name", of a page, a screen or a product.
func (p Properties) SetName(name string) Properties { return p.Set("name", name) }

// SetCategory sets "category", of a page, a screen or a product.
func (p Properties) SetCategory(category string) Properties { return p.Set("category", category) }

// SetSKU sets "sku", of a product.
func (p Properties) SetSKU(sku string) Properties { return p.Set("sku", sku) }

// SetPrice sets "price", of a product.
func (p Properties) SetPrice(price float64) Properties { return p.Set("price", price) }

// SetProductId sets "id", of a product.
func (p Properties) SetProductId(id string) Properties { return p.Set("id", id) }

// SetOrderId sets "orderId".
func (p Properties) SetOrderId(id string) Properties { return p.Set("orderId", id) }

// SetTotal sets "total", of an order.
func (p Properties) SetTotal(total float64) Properties { return p.Set("total", total) }

// SetSubtotal sets "subtotal", of an order before shipping and tax.
func (p Properties) SetSubtotal(subtotal float64) Properties { return p.Set("subtotal", subtotal) }

// SetShipping sets "shipping", its cost.
func (p Properties) SetShipping(shipping float64) Properties { return p.Set("shipping", shipping) }

// SetTax sets "tax", of an order.
func (p Properties) SetTax(tax float64) Properties { return p.Set("tax", tax) }

// SetDiscount sets "discount", of an order.
func (p Properties) SetDiscount(discount float64) Properties { return p.Set("discount", discount) }

// SetCoupon sets "coupon", its code.
func (p Properties) SetCoupon(coupon string) Properties { return p.Set("coupon", coupon) }

// SetProducts sets "products", of an order, as a []Product.
func (p Properties) SetProducts(products ...Product) Properties { return p.Set("products", products) }

// SetRepeat sets "repeat": whether the customer has ordered before.
func (p Properties) SetRepeat(repeat bool) Properties { return p.Set("repeat", repeat) }

// Product is one of the products of an order.
type Product struct {
	ID    string  `json:"id,omitempty"`
	SKU   string  `json:"sky,omitempty"` // as version 3 writes it
	Name  string  `json:"name,omitempty"`
	Price float64 `json:"price"`
}

// Traits are the traits of a user or a group. They are as Properties are:
//
//	analytics.NewTraits().SetEmail("jo@example.com").Set("plan", "team")
type Traits map[string]interface{}

// NewTraits returns empty traits.
func NewTraits() Traits { return make(Traits, 10) }

// Set sets any trait.
func (t Traits) Set(field string, value interface{}) Traits {
	t[field] = value
	return t
}

// SetAddress sets "address".
func (t Traits) SetAddress(address string) Traits { return t.Set("address", address) }

// SetAge sets "age", in years.
func (t Traits) SetAge(age int) Traits { return t.Set("age", age) }

// SetAvatar sets "avatar", the URL of a picture.
func (t Traits) SetAvatar(url string) Traits { return t.Set("avatar", url) }

// SetBirthday sets "birthday".
func (t Traits) SetBirthday(date time.Time) Traits { return t.Set("birthday", date) }

// SetCreatedAt sets "createdAt", when the user's account was made.
func (t Traits) SetCreatedAt(date time.Time) Traits { return t.Set("createdAt", date) }

// SetDescription sets "description".
func (t Traits) SetDescription(desc string) Traits { return t.Set("description", desc) }

// SetEmail sets "email".
func (t Traits) SetEmail(email string) Traits { return t.Set("email", email) }

// SetFirstName sets "firstName".
func (t Traits) SetFirstName(firstName string) Traits { return t.Set("firstName", firstName) }

// SetGender sets "gender".
func (t Traits) SetGender(gender string) Traits { return t.Set("gender", gender) }

// SetLastName sets "lastName".
func (t Traits) SetLastName(lastName string) Traits { return t.Set("lastName", lastName) }

// SetName sets "name".
func (t Traits) SetName(name string) Traits { return t.Set("name", name) }

// SetPhone sets "phone".
func (t Traits) SetPhone(phone string) Traits { return t.Set("phone", phone) }

// SetTitle sets "title", such as that of the user's position.
func (t Traits) SetTitle(title string) Traits { return t.Set("title", title) }

// SetUsername sets "username".
func (t Traits) SetUsername(username string) Traits { return t.Set("username", username) }

// SetWebsite sets "website".
func (t Traits) SetWebsite(url string) Traits { return t.Set("website", url) }

// Integrations says which destinations a message goes to: a destination's name mapped to
// true, false or an object of settings. Without it a message goes to every one. The
// methods are as those of Properties:
//
//	analytics.NewIntegrations().DisableAll().Enable("Webhooks")
type Integrations map[string]interface{}

// allIntegrations is the key for all destinations, as version 3 writes it. The service
// and this module's collector take it for "All".
const allIntegrations = "all"

// NewIntegrations returns an empty set of choices.
func NewIntegrations() Integrations { return make(Integrations, 10) }

// EnableAll sends the message to every destination that is not disabled by name.
func (i Integrations) EnableAll() Integrations { return i.Enable(allIntegrations) }

// DisableAll sends the message to no destination but those that are enabled by name.
func (i Integrations) DisableAll() Integrations { return i.Disable(allIntegrations) }

// Enable sends the message to a destination.
func (i Integrations) Enable(name string) Integrations { return i.Set(name, true) }

// Disable keeps the message from a destination.
func (i Integrations) Disable(name string) Integrations { return i.Set(name, false) }

// Set maps a destination to a value. Any but false enables it.
func (i Integrations) Set(name string, value interface{}) Integrations {
	i[name] = value
	return i
}
