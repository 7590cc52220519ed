package users_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

func ExampleSnakeCase() {
	fmt.Println(users.SnakeCase("Big Spenders (last 30 days)"))
	// Output: big_spenders_last_30_days
}

func TestSnakeCase(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		// words
		{"Big Spenders", "big_spenders"},
		{"big_spenders", "big_spenders"},
		{"BIG SPENDERS", "big_spenders"},
		{"churned", "churned"},
		{"  Big \t Spenders\n", "big_spenders"},
		// camelCase
		{"bigSpenders", "big_spenders"},
		{"BigSpenders", "big_spenders"},
		{"HTTPServerUsers", "http_server_users"},
		{"usersOfAPI", "users_of_api"},
		{"iOSUsers", "i_os_users"},
		{"APIs", "ap_is"},
		{"A", "a"},
		{"ABTest", "ab_test"},
		// digits
		{"top10", "top10"},
		{"Top 10 Users", "top_10_users"},
		{"top10Users", "top10_users"},
		{"top10users", "top10users"},
		{"TOP10USERS", "top10_users"},
		{"1st order", "1st_order"},
		{"30DayActive", "30_day_active"},
		{"2024", "2024"},
		{"v1.2", "v1_2"},
		{"Q4 ½ price", "q4_½_price"},
		{"٣ orders", "٣_orders"},
		// punctuation
		{"Big-Spenders", "big_spenders"},
		{"Big.Spenders/EU", "big_spenders_eu"},
		{"R&D", "r_d"},
		{"Big -- Spenders!!", "big_spenders"},
		{"(EU) Users", "eu_users"},
		{"__private__", "private"},
		{"100% club", "100_club"},
		{"$$$", ""},
		{"Don't contact", "dont_contact"},
		{"Don’t contact", "dont_contact"},
		{"'quoted' name", "quoted_name"},
		{"users' choice", "users_choice"},
		{"🎉 Party 🎉 People", "party_people"},
		{"\"", ""},
		{"", ""},
		{"   ", ""},
		// other alphabets
		{"Käufer Österreich", "käufer_österreich"},
		{"größeKäufer", "größe_käufer"},
		{"ÜBERNahme", "über_nahme"},
		{"Покупатели Москвы", "покупатели_москвы"},
		{"новыеПокупатели", "новые_покупатели"},
		{"ΜΕΓΑΛΟΙ πελάτες", "μεγαλοι_πελάτες"},
		{"大口客户", "大口客户"},
		{"大口 客户", "大口_客户"},
		{"新規User", "新規_user"},
		{"عملاء جدد", "عملاء_جدد"},
		{"बड़े ग्राहक", "बड़े_ग्राहक"},
		{"Cafe\u0301Users", "cafe\u0301_users"}, // a combining accent belongs to the letter before it
		{"ǅungla", "ǆungla"},
		{"𝐀𝐁c", "𝐀𝐁c"}, // these capitals have no lower-case form
		{"a\xffb", "a_b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := users.SnakeCase(test.name)
			assert.Equal(t, test.want, got)
			assert.Equal(t, got, users.SnakeCase(got), "again")
		})
	}
}

func FuzzSnakeCase(f *testing.F) {
	for _, s := range []string{"Big Spenders", "HTTPServer2Go", "Don't", "größeKäufer", "a\u0301B", "İstanbul", "\u0301A"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key := users.SnakeCase(name)
		if again := users.SnakeCase(key); again != key {
			t.Errorf("%q gives %q, and that %q", name, key, again)
		}
		if !utf8.ValidString(key) || strings.HasPrefix(key, "_") || strings.HasSuffix(key, "_") || strings.Contains(key, "__") {
			t.Errorf("%q gives %q", name, key)
		}
	})
}
