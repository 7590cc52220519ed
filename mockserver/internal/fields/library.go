package fields

import (
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// keptLibrary is how many characters of the name and the version of a library are kept.
const keptLibrary = 100

// Library returns which library a context says that made the call, as in analytics-go
// 1.2.3; empty where it does not say. The context may be nil.
func Library(context []byte) string {
	var name, version string
	for part := range jsonscan.Members(Member(context, "library")) {
		switch string(jsonscan.Unquote(part.Key)) {
		case "name":
			name = Text(part.Value)
		case "version":
			version = Text(part.Value)
		}
	}
	return text.Cut(keptLibrary, strings.TrimSpace(name+" "+version))
}
