package inspector

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"sync"
)

// keptNotices is how many notices are remembered.
const keptNotices = 100

// notices say what forms did, on the pages that browsers are redirected to.
// Each has a name that nobody can guess, so that no link can make one up.
type notices struct {
	mu    sync.Mutex        // guards what follows
	texts map[string]string // by name
	names []string          // oldest first
}

func (n *notices) add(text string) (name string) {
	name = rand.Text()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.texts == nil {
		n.texts = map[string]string{}
	}
	if len(n.names) == keptNotices {
		delete(n.texts, n.names[0])
		n.names = n.names[1:]
	}
	n.texts[name] = text
	n.names = append(n.names, name)
	return name
}

// redirectTo sends the browser from a form to a page of the inspector, which then says
// what was done.
func (in *Inspector) redirectTo(w http.ResponseWriter, r *http.Request, target, done string) {
	u, err := url.Parse(target)
	if err != nil {
		in.renderError(w, err)
		return
	}
	q := u.Query()
	q.Set("notice", in.notices.add(done))
	u.RawQuery = q.Encode()
	http.Redirect(w, r, u.String(), http.StatusSeeOther)
}

// notice returns what was done before the page was asked for, or nothing.
func (in *Inspector) notice(r *http.Request) string {
	in.notices.mu.Lock()
	defer in.notices.mu.Unlock()
	return in.notices.texts[r.URL.Query().Get("notice")]
}
