package inspector

import (
	"net/http"
	"net/url"
)

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
