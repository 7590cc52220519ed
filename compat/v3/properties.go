package analytics

import "time"

// Properties are the properties of a Track, Page or Screen. Values can be of any type that
// encoding/json supports. The methods set the keys that destinations know. They modify the
// map, which must not be nil, and return it for chaining:
//
//	analytics.NewProperties().SetRevenue(25.5).SetCurrency("USD").Set("coupon", "spring")
type Properties map[string]interface{}

// NewProperties returns an empty map.
func NewProperties() Properties { return make(Properties, 10) }

// Set sets a property.
func (p Properties) Set(name string, value interface{}) Properties {
	p[name] = value
	return p
}

// SetRevenue sets "revenue", the revenue of an event.
func (p Properties) SetRevenue(revenue float64) Properties { return p.Set("revenue", revenue) }

// SetCurrency sets "currency", an ISO 4217 code such as "USD".
func (p Properties) SetCurrency(currency string) Properties { return p.Set("currency", currency) }

// SetValue sets "value", the value of an event without revenue.
func (p Properties) SetValue(value float64) Properties { return p.Set("value", value) }

// SetPath sets "path", the path of a page's URL.
func (p Properties) SetPath(path string) Properties { return p.Set("path", path) }

// SetReferrer sets "referrer", the URL of the previous page.
func (p Properties) SetReferrer(referrer string) Properties { return p.Set("referrer", referrer) }

// SetTitle sets "title", the title of a page.
func (p Properties) SetTitle(title string) Properties { return p.Set("title", title) }

// SetURL sets "url", the URL of a page.
func (p Properties) SetURL(url string) Properties { return p.Set("url", url) }

// SetName sets "name", the name of a page, screen or product.
func (p Properties) SetName(name string) Properties { return p.Set("name", name) }

// SetCategory sets "category", the category of a page, screen or product.
func (p Properties) SetCategory(category string) Properties { return p.Set("category", category) }

// SetSKU sets "sku", the SKU of a product.
func (p Properties) SetSKU(sku string) Properties { return p.Set("sku", sku) }

// SetPrice sets "price", the price of a product.
func (p Properties) SetPrice(price float64) Properties { return p.Set("price", price) }

// SetProductId sets "id", the ID of a product.
func (p Properties) SetProductId(id string) Properties { return p.Set("id", id) }

// SetOrderId sets "orderId".
func (p Properties) SetOrderId(id string) Properties { return p.Set("orderId", id) }

// SetTotal sets "total", the total of an order.
func (p Properties) SetTotal(total float64) Properties { return p.Set("total", total) }

// SetSubtotal sets "subtotal", the total of an order before shipping and tax.
func (p Properties) SetSubtotal(subtotal float64) Properties { return p.Set("subtotal", subtotal) }

// SetShipping sets "shipping", the shipping cost of an order.
func (p Properties) SetShipping(shipping float64) Properties { return p.Set("shipping", shipping) }

// SetTax sets "tax", the tax of an order.
func (p Properties) SetTax(tax float64) Properties { return p.Set("tax", tax) }

// SetDiscount sets "discount", the discount of an order.
func (p Properties) SetDiscount(discount float64) Properties { return p.Set("discount", discount) }

// SetCoupon sets "coupon", a coupon code.
func (p Properties) SetCoupon(coupon string) Properties { return p.Set("coupon", coupon) }

// SetProducts sets "products", the products of an order.
func (p Properties) SetProducts(products ...Product) Properties { return p.Set("products", products) }

// SetRepeat sets "repeat", which is true if the customer has ordered before.
func (p Properties) SetRepeat(repeat bool) Properties { return p.Set("repeat", repeat) }

// Product is a product of an order.
type Product struct {
	ID    string  `json:"id,omitempty"`
	SKU   string  `json:"sky,omitempty"` // misspelled, as in version 3
	Name  string  `json:"name,omitempty"`
	Price float64 `json:"price"`
}

// Traits are the traits of a user or group, with similar methods:
//
//	analytics.NewTraits().SetEmail("jo@example.com").Set("plan", "team")
type Traits map[string]interface{}

// NewTraits returns an empty map.
func NewTraits() Traits { return make(Traits, 10) }

// Set sets a trait.
func (t Traits) Set(field string, value interface{}) Traits {
	t[field] = value
	return t
}

// SetAddress sets "address".
func (t Traits) SetAddress(address string) Traits { return t.Set("address", address) }

// SetAge sets "age", in years.
func (t Traits) SetAge(age int) Traits { return t.Set("age", age) }

// SetAvatar sets "avatar", the URL of an image.
func (t Traits) SetAvatar(url string) Traits { return t.Set("avatar", url) }

// SetBirthday sets "birthday".
func (t Traits) SetBirthday(date time.Time) Traits { return t.Set("birthday", date) }

// SetCreatedAt sets "createdAt", the time when the account was created.
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

// SetTitle sets "title", for example the user's job title.
func (t Traits) SetTitle(title string) Traits { return t.Set("title", title) }

// SetUsername sets "username".
func (t Traits) SetUsername(username string) Traits { return t.Set("username", username) }

// SetWebsite sets "website".
func (t Traits) SetWebsite(url string) Traits { return t.Set("website", url) }

// Integrations select a message's destinations: they map the name of a destination to
// true, false or an object of settings. Messages without Integrations go to all
// destinations. The methods can be chained:
//
//	analytics.NewIntegrations().DisableAll().Enable("Webhooks")
type Integrations map[string]interface{}

// allIntegrations is the key for all destinations in version 3. The service and this
// module's collector treat it like "All".
const allIntegrations = "all"

// NewIntegrations returns an empty map.
func NewIntegrations() Integrations { return make(Integrations, 10) }

// EnableAll enables every destination that is not disabled by name.
func (i Integrations) EnableAll() Integrations { return i.Enable(allIntegrations) }

// DisableAll disables every destination that is not enabled by name.
func (i Integrations) DisableAll() Integrations { return i.Disable(allIntegrations) }

// Enable enables a destination.
func (i Integrations) Enable(name string) Integrations { return i.Set(name, true) }

// Disable disables a destination.
func (i Integrations) Disable(name string) Integrations { return i.Set(name, false) }

// Set sets the value of a destination. Any value except false enables it.
func (i Integrations) Set(name string, value interface{}) Integrations {
	i[name] = value
	return i
}
