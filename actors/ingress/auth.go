package ingress

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"plimsoll/actors/fault"
)

// defaultTenant is who calls where no keys are configured.
const defaultTenant = "default"

// Keys are API keys by their names. A name may have several: while one takes another's place both are taken.
type Keys map[string][]string

// Keyring says whose key a header carries. Its keys can be changed while it is in use. It is safe for concurrent use.
type Keyring struct{ now atomic.Pointer[keyring] }

// NewKeyring returns one with these keys; every header will do if there is none.
func NewKeyring(keys Keys) *Keyring {
	k := &Keyring{}
	k.Set(keys)
	return k
}

// Set has these keys take the place of those that it has. Requests that were let in go on.
func (k *Keyring) Set(keys Keys) {
	ring := newKeyring(keys)
	k.now.Store(&ring)
}

// Authorized says whether a header carries a known key, or none is needed.
func (k *Keyring) Authorized(h http.Header) bool {
	_, f := k.tenant(h)
	return f == nil
}

func (k *Keyring) tenant(h http.Header) (string, *fault.Fault) { return k.now.Load().tenant(h) }

// keyring knows the API keys by their digests.
type keyring []namedKey

type namedKey struct {
	name   string
	digest [sha256.Size]byte
}

func newKeyring(keys Keys) keyring {
	ring := make(keyring, 0, len(keys))
	for name, several := range keys {
		for _, key := range several {
			ring = append(ring, namedKey{name, sha256.Sum256([]byte(key))})
		}
	}
	sort.Slice(ring, func(i, j int) bool { return ring[i].name < ring[j].name })
	return ring
}

// names are those of the keys, which are tenants.
func (k *Keyring) names() []string {
	ring := *k.now.Load()
	names := make([]string, 0, len(ring))
	for _, key := range ring {
		names = append(names, key.name)
	}
	return slices.Compact(names) // they are sorted
}

// Authorized says whether a request with this header may call: it carries a known key, or none is needed.
func (s *Server) Authorized(h http.Header) bool { return s.keys.Authorized(h) }

// SetKeys has these keys take the place of Config.APIKeys from the next request on.
func (s *Server) SetKeys(keys Keys) {
	s.keys.Set(keys)
	s.deps.Meter.Expect(s.expected()) // there may be new tenants
}

// tenant returns the name of the key that the header carries, as "Authorization: Bearer" or as "x-api-key". Every key is
// compared, in constant time, so that how long it takes tells nothing about any of them.
func (k keyring) tenant(h http.Header) (string, *fault.Fault) {
	if len(k) == 0 {
		return defaultTenant, nil
	}
	scheme, bearer, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		bearer = ""
	}
	name := ""
	for _, given := range []string{strings.TrimSpace(bearer), h.Get("X-Api-Key")} {
		digest := sha256.Sum256([]byte(given))
		for _, key := range k {
			if subtle.ConstantTimeCompare(digest[:], key.digest[:]) == 1 {
				name = key.name
			}
		}
	}
	if name == "" {
		return "", fault.New(fault.Unauthorized,
			"a valid API key is needed: send it as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'")
	}
	return name, nil
}

// ParseKeys reads a key file: one key a line, as "name: key" or as the key alone, which is then named "key-" and the
// number of its line. Blank lines and lines that begin with # are passed over. A name may come in several lines, a key comes once;
// it is at least 8 characters long and holds no blank. Errors name the line and never print a key.
func ParseKeys(r io.Reader) (Keys, error) {
	keys := Keys{}
	lineOf := map[string]int{} // by key
	scan := bufio.NewScanner(r)
	for line := 1; scan.Scan(); line++ {
		text := strings.TrimSpace(strings.TrimPrefix(scan.Text(), "\ufeff"))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, key, named := strings.Cut(text, ":")
		if !named {
			name, key = fmt.Sprintf("key-%d", line), text
		}
		name, key = strings.TrimSpace(name), strings.TrimSpace(key)
		switch {
		case name == "" || strings.ContainsAny(name, " \t"):
			return nil, fmt.Errorf("line %d: the name before the colon must be one word", line)
		case len(key) < 8 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, fmt.Errorf("line %d: a key is at least 8 printable ASCII characters without a blank", line)
		case lineOf[key] != 0:
			return nil, fmt.Errorf("line %d: the key is that of line %d", line, lineOf[key])
		}
		keys[name], lineOf[key] = append(keys[name], key), line
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in the file")
	}
	return keys, nil
}
