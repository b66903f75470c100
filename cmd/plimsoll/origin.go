package main

import (
	"fmt"
	"net/url"
	"strings"
)

// origin is what one --cors-origin says: a page's scheme, host and port as a browser writes them, or "*" for all.
type origin string

// String is the inverse of [parseOrigin].
func (o origin) String() string { return string(o) }

// parseOrigin reads an origin, which has no path.
func parseOrigin(text string, _ int) (origin, error) {
	if text == "*" {
		return origin(text), nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(text, "*") {
		return "", fmt.Errorf("%q is no origin: write SCHEME://HOST or SCHEME://HOST:PORT without a slash at the end, e.g. https://chat.example.com, or * for all", text)
	}
	return origin(strings.ToLower(text)), nil
}

// textsOf are the origins as a server takes them.
func textsOf(origins []origin) []string {
	texts := make([]string, len(origins))
	for i, o := range origins {
		texts[i] = string(o)
	}
	return texts
}
