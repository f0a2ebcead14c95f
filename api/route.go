package api

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strings"
)

// route is one row of the table that the router and the OpenAPI document are made
// of.
type route struct {
	method string
	// path has a parameter where a segment is a name in braces. Of two rows that fit,
	// the first one counts.
	path string
	// doc is one sentence.
	doc   string
	query []parameter
	// body and answer are the types of the JSON that comes and goes; nil: none, or
	// content says what else goes.
	body, answer reflect.Type
	maxBody      int64
	status       int
	content      string
	// open routes ask for no token.
	open bool
	// changes: it changes something, so pages of other sites must not call it.
	changes bool
	// endless: it has no time limit.
	endless bool
	serve   func(*call) error
}

// parameter is a parameter of a query.
type parameter struct{ name, kind, doc string }

// get is the row of a route that shows something.
func get[T any](path, doc string, f func(*call) (T, error)) route {
	return route{method: http.MethodGet, path: path, doc: doc, answer: reflect.TypeFor[T](), maxBody: maxBody, status: http.StatusOK,
		serve: answering(http.StatusOK, f)}
}

// with adds parameters of the query.
func (r route) with(query ...parameter) route {
	r.query = query
	return r
}

// change is the row of a route that changes something.
func change[T any](method, path, doc string, status int, f func(*call) (T, error)) route {
	return route{method: method, path: path, doc: doc, answer: reflect.TypeFor[T](), maxBody: maxBody, status: status,
		changes: true, serve: answering(status, f)}
}

func answering[T any](status int, f func(*call) (T, error)) func(*call) error {
	return func(c *call) error {
		v, err := f(c)
		if err == nil {
			writeJSON(c.w, status, v)
		}
		return err
	}
}

// call is one request on its way through a handler.
type call struct {
	*handler
	ctx    context.Context
	w      http.ResponseWriter
	r      *http.Request
	params map[string]string
}

// routes are all rows. Flink's are there twice, since its clients ask under /v1 and
// its web page does not.
func (h *handler) routes() []route {
	flink := append(clusterRoutes(), append(jobRoutes(), checkpointRoutes()...)...)
	all := append([]route{}, prefixed("/v1", flink)...)
	all = append(all, flink...)
	all = append(all, prefixed("/cutwater/v1", ownRoutes())...)
	return append(all, metricsRoute())
}

func prefixed(prefix string, routes []route) []route {
	all := make([]route, len(routes))
	for i, r := range routes {
		r.path = prefix + r.path
		all[i] = r
	}
	return all
}

// find returns the row for a request and its parameters. Without one, allowed are the
// methods that the path has.
func (h *handler) find(method string, u *url.URL) (r *route, params map[string]string, allowed []string) {
	segments := strings.Split(u.EscapedPath(), "/")
	for i, s := range segments {
		plain, err := url.PathUnescape(s)
		if err != nil {
			return nil, nil, nil
		}
		segments[i] = plain
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range h.table {
		params, ok := match(h.patterns[i], segments)
		switch {
		case !ok:
		case h.table[i].method == method:
			return &h.table[i], params, nil
		default:
			allowed = append(allowed, h.table[i].method)
		}
	}
	return nil, nil, allowed
}

// match compares the segments of a pattern and a path.
func match(pattern, path []string) (params map[string]string, ok bool) {
	if len(pattern) != len(path) {
		return nil, false
	}
	for i, p := range pattern {
		name, isParam := strings.CutPrefix(p, "{")
		switch {
		case isParam && path[i] != "":
			if params == nil {
				params = make(map[string]string, 2)
			}
			params[strings.TrimSuffix(name, "}")] = path[i]
		case p != path[i]:
			return nil, false
		}
	}
	return params, true
}
