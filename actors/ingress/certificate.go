package ingress

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
)

// Certificate is a certificate, its chain included, and its key, both in PEM files. It can be read again while it is in use, and
// is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	now               atomic.Pointer[tls.Certificate]
}

// LoadCertificate reads one.
func LoadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	use, err := c.Read()
	if err != nil {
		return nil, err
	}
	use()
	return c, nil
}

// Read reads the files again. use has what they hold shown to connections that begin from then on.
func (c *Certificate) Read() (use func(), err error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key cannot be used: %w", err)
	}
	return func() { c.now.Store(&pair) }, nil
}

// Config returns what a server that shows the certificate is configured with.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil },
	}
}
