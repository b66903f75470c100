package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certified writes a certificate of this machine, and its key.
func certified(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// trusting returns the status of a GET by a client that trusts a certificate alone.
func trusting(t *testing.T, certificate []byte, url string, header ...string) int {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(certificate))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// operatorsURL is where the server says that operators' port is.
func (s *server) operatorsURL(t *testing.T) string {
	t.Helper()
	for line := range s.log {
		var entry struct{ Msg, URL string }
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		if entry.Msg == "listening for operators" {
			return entry.URL
		}
	}
	require.Fail(t, "the server ended without a word of it")
	return ""
}

func TestTheAdminPortTakesTLSToo(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certified(t, cert, key)
	s := start(t, "--tls-cert", cert, "--tls-key", key, "--admin-listen", "127.0.0.1:0")
	require.True(t, strings.HasPrefix(s.url, "https://"), s.url)
	pem, err := os.ReadFile(cert)
	require.NoError(t, err)
	for _, url := range []string{s.url, s.operatorsURL(t)} {
		require.True(t, strings.HasPrefix(url, "https://"), url)
		require.Equal(t, 200, trusting(t, pem, url+"/health"))
	}
}

// A certificate that is renewed, and operators' keys, are used from SIGHUP on, both or neither.
func TestSIGHUPReadsTheCertificateAndOperatorsKeysAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key, keys := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "keys")
	write := func(text string) { require.NoError(t, os.WriteFile(keys, []byte(text), 0o600)) }
	certified(t, cert, key)
	write("ops: first-secret\n")
	s := start(t, "--tls-cert", cert, "--tls-key", key, "--admin-listen", "127.0.0.1:0", "--admin-key-file", keys)
	admin := s.operatorsURL(t)
	status := func(secret string) int {
		pem, err := os.ReadFile(cert)
		require.NoError(t, err)
		return trusting(t, pem, admin+"/admin/replicas", "X-Api-Key", secret)
	}
	require.Equal(t, http.StatusOK, status("first-secret"))
	write("short\n")
	certified(t, cert+".new", key+".new")
	require.NoError(t, os.Rename(cert+".new", cert))
	require.NoError(t, os.Rename(key+".new", key))
	s.signal(t, syscall.SIGHUP)
	s.awaitLog(t, "nothing was reloaded")
	write("ops: second-secret\n")
	s.signal(t, syscall.SIGHUP)
	s.awaitLog(t, `"msg":"reloaded"`)
	require.Equal(t, http.StatusOK, status("second-secret"))
	require.Equal(t, http.StatusUnauthorized, status("first-secret"))
}
