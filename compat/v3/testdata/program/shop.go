package main

import (
	"github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// shop sends an order. It passes pointers to messages and uses all setters.
func shop(endpoint string) error {
	client, err := analytics.NewWithConfig("shop-key", analytics.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	for _, m := range []analytics.Message{
		&analytics.Page{
			UserId: "u3",
			Name:   "Cart",
			Properties: analytics.NewProperties().SetPath("/cart").SetReferrer("https://example.com/").
				SetTitle("Your cart").SetURL("https://shop.example.com/cart?a=1&b=<2>").SetCategory("checkout"),
		},
		&analytics.Screen{UserId: "u3", Name: "Receipt", Properties: analytics.NewProperties().SetName("Receipt")},
		&analytics.Track{
			UserId: "u3",
			Event:  "Order Completed",
			Properties: analytics.NewProperties().
				SetOrderId("o-1").SetTotal(30.5).SetSubtotal(25).SetRevenue(25.5).SetShipping(3).SetTax(2.5).
				SetDiscount(0.5).SetCoupon("SPRING").SetCurrency("EUR").SetRepeat(true).SetValue(25.5).
				SetSKU("sku-0").SetPrice(1e-7).SetProductId("p-0").
				SetProducts(
					analytics.Product{ID: "p-1", SKU: "sku-1", Name: "Chess <deluxe>", Price: 19.99},
					analytics.Product{ID: "p-2"},
				),
		},
		&analytics.Identify{
			UserId: "u3",
			Traits: analytics.NewTraits().SetAddress("1 Main St").SetAge(44).SetAvatar("https://a.example/b").
				SetDescription("d").SetGender("x").SetLastName("Doe").SetPhone("+31").SetTitle("Dr").
				SetUsername("jd").SetWebsite("https://jd.example"),
		},
	} {
		if err := client.Enqueue(m); err != nil {
			return err
		}
	}
	return client.Close()
}
