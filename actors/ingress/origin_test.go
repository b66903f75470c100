package ingress

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const page = "https://page.example"

// Field input 12, its OPTIONS: what a browser asks before it sends a page's request has no key.
func TestField12OPTIONSNeedsNoKey(t *testing.T) {
	for name, keys := range map[string]Keys{"open": nil, "with keys": {"team": {"secret-key"}}} {
		for allowed, origins := range map[string][]string{"nobody's": nil, "this page's": {page}, "all": {"*"}, "another's": {"https://other.example"}} {
			t.Run(name+", "+allowed, func(t *testing.T) {
				cfg := testConfig()
				cfg.APIKeys, cfg.Origins = keys, origins
				e := newEdge(t, cfg, newFront(says("x")))
				rec := e.do("OPTIONS", pathChat, "", "Origin", page, "Access-Control-Request-Method", "POST",
					"Access-Control-Request-Headers", "authorization,content-type")
				require.Equal(t, 204, rec.Code)
				require.Equal(t, "OPTIONS, POST", rec.Header().Get("Allow"))
				want := map[string]string{"this page's": page, "all": "*"}[allowed]
				require.Equal(t, want, rec.Header().Get("Access-Control-Allow-Origin"))
				if want != "" {
					require.Equal(t, "POST", rec.Header().Get("Access-Control-Allow-Methods"))
					require.Equal(t, "authorization,content-type", rec.Header().Get("Access-Control-Allow-Headers"))
					require.Equal(t, "600", rec.Header().Get("Access-Control-Max-Age"))
				}
				require.Empty(t, e.front.submitted())

				rec = e.do("POST", pathChat, withMember(pathChat, `"stream":true`), "Origin", page, "x-api-key", "secret-key")
				require.Equal(t, 200, rec.Code)
				require.Equal(t, want, rec.Header().Get("Access-Control-Allow-Origin"))
				require.Equal(t, want != "", strings.Contains(rec.Header().Get("Access-Control-Expose-Headers"), "X-Request-Id"))
			})
		}
	}
}

// A page can read what went wrong too, and is no way around keys.
func TestPagesNeedKeysAndReadErrors(t *testing.T) {
	cfg := testConfig()
	cfg.APIKeys, cfg.Origins = Keys{"team": {"secret-key"}}, []string{page}
	e := newEdge(t, cfg, newFront(says("x")))
	for path, want := range map[string]int{pathChat: 401, "/nowhere": 401} {
		rec := e.do("POST", path, withMember(pathChat, ""), "Origin", page)
		require.Equal(t, want, rec.Code)
		require.Equal(t, page, rec.Header().Get("Access-Control-Allow-Origin"))
	}
	require.Equal(t, 404, e.do("OPTIONS", "/nowhere", "", "Origin", page, "Access-Control-Request-Method", "POST").Code)
	require.Empty(t, e.do("OPTIONS", "/admin", "", "Origin", page, "Access-Control-Request-Method", "DELETE").Header().Get("Access-Control-Allow-Methods"))
}

func TestTheRootSaysWhatThisIs(t *testing.T) {
	cfg := testConfig()
	cfg.APIKeys = Keys{"team": {"secret-key"}}
	e := newEdge(t, cfg, newFront(nil))
	rec := e.do("GET", "/", "")
	require.Equal(t, 200, rec.Code)
	require.Equal(t, "text/html; charset=utf-8", rec.Header().Get("Content-Type"))
	for _, r := range e.routes() {
		if path, _, _ := strings.Cut(r.pattern, "{"); r.name != routeModel {
			require.Contains(t, rec.Body.String(), path, "the page names each route")
		}
	}
	require.Equal(t, 405, e.do("POST", "/", "{}").Code)
	require.Empty(t, e.do("HEAD", "/", "").Header().Get("Transfer-Encoding"))
}

func TestWhoLeavesIsNotReadyAndServesOn(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(says("x")))
	require.Equal(t, 200, e.do("GET", "/ready", "").Code)
	e.Leave()
	rec := e.do("GET", "/ready", "")
	require.Equal(t, 503, rec.Code)
	require.Contains(t, rec.Body.String(), `"shutting_down"`)
	require.Equal(t, 200, e.do("GET", "/health", "").Code)
	require.Equal(t, 200, e.do("POST", pathChat, withMember(pathChat, "")).Code)
}

// RFC 9112, 6.1: the connection of a request with both lengths is closed. net/http hides one of them, so that it is closed after
// every chunked request.
func TestAConnectionWithTwoLengthsIsClosed(t *testing.T) {
	ts := httptest.NewServer(newEdge(t, testConfig(), newFront(says("x"))))
	defer ts.Close()
	for name, c := range map[string]struct {
		header, body string
		closes       bool
	}{
		"both, the length first":  {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", true},
		"both, the length behind": {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n", true},
		"chunked":                 {"Transfer-Encoding: chunked\r\n", "0\r\n\r\n", true},
		"a length":                {"Content-Length: 2\r\n", "{}", false},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(ts.URL, "http://"))
			require.NoError(t, err)
			defer conn.Close() //nolint:errcheck // all is read
			// What stands behind the request is another one only if the connection goes on.
			_, err = io.WriteString(conn, "POST "+pathChat+" HTTP/1.1\r\nHost: x\r\n"+c.header+"\r\n"+c.body+"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			in := bufio.NewReader(conn)
			first, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, first.Body)
			require.NoError(t, errors.Join(err, first.Body.Close()))
			require.Equal(t, 400, first.StatusCode)
			require.Equal(t, c.closes, first.Close)
			if c.closes {
				_, err = in.ReadByte()
				require.ErrorIs(t, err, io.EOF)
				return
			}
			second, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			require.NoError(t, second.Body.Close())
			require.Equal(t, 200, second.StatusCode)
		})
	}
}

// certify writes a certificate of a name, and its key.
func certify(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// A certificate that is renewed is shown to who connects from then on; one that is broken changes nothing.
func TestACertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	_, err := LoadCertificate(certFile, keyFile)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "--tls-cert")
	certify(t, "old", certFile, keyFile)
	cfg := testConfig()
	cfg.TLS, err = LoadCertificate(certFile, keyFile)
	require.NoError(t, err)
	e := newEdge(t, cfg, newFront(nil))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- e.Serve(l) }()
	shown := func() string {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", l.Addr().String()) //nolint:gosec // it is looked at
		require.NoError(t, err)
		defer conn.Close() //nolint:errcheck // nothing is sent
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	require.Equal(t, "old", shown())
	certify(t, "new", certFile, keyFile)
	require.Equal(t, "old", shown())
	use, err := cfg.TLS.Read()
	require.NoError(t, err)
	require.Equal(t, "old", shown(), "not before all else that is read again can be used")
	use()
	require.Equal(t, "new", shown())
	require.NoError(t, os.WriteFile(certFile, []byte("half"), 0o600))
	_, err = cfg.TLS.Read()
	require.ErrorContains(t, err, "--tls-cert")
	require.Equal(t, "new", shown())
	require.NoError(t, e.Close())
	require.NoError(t, <-served)
}
