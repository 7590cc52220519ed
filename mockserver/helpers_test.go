package mockserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
)

// serve asks a handler without a network, with the write key "key".
func serve(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.SetBasicAuth("key", "")
	res := httptest.NewRecorder()
	h.ServeHTTP(res, req)
	return res
}
