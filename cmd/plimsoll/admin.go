package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"

	"plimsoll/actors/admin"
	"plimsoll/actors/ingress"
)

// adminPort is the operators' port. A nil one does nothing: there is none.
type adminPort struct {
	listener net.Listener
	server   *http.Server
	scheme   string
}

// listenAdmin opens the port; certificate is nil for clear text.
func listenAdmin(address string, certificate *ingress.Certificate, log *slog.Logger) (*adminPort, error) {
	l, err := listen("admin-listen", address)
	if err != nil {
		return nil, err
	}
	a := &adminPort{listener: l, server: admin.NewServer(http.NotFoundHandler(), log), scheme: "http"}
	if certificate != nil {
		a.server.TLSConfig, a.scheme = certificate.Config(), "https"
	}
	return a, nil
}

// loopback says whether only this machine reaches the port.
func (a *adminPort) loopback() bool {
	if a == nil {
		return false
	}
	return loopback(a.listener)
}

// loopback says whether only this machine reaches a port.
func loopback(l net.Listener) bool {
	at, ok := l.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// handle sets what the port serves; it is called once, before serve.
func (a *adminPort) handle(h http.Handler) {
	if a != nil {
		a.server.Handler = h
	}
}

// serve answers until close.
func (a *adminPort) serve(log *slog.Logger) {
	if a == nil {
		return
	}
	address := a.listener.Addr().String()
	log.Info("listening for operators", slog.String("address", address), slog.String("url", a.scheme+"://"+address))
	serve := a.server.Serve
	if a.server.TLSConfig != nil {
		serve = func(l net.Listener) error { return a.server.ServeTLS(l, "", "") }
	}
	if err := serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
		log.Error("the operators' port is closed", slog.Any("error", err))
	}
}

func (a *adminPort) close() error {
	if a == nil {
		return nil
	}
	return errors.Join(a.server.Close(), ignoreClosed(a.listener.Close()))
}

// ignoreClosed drops the error of closing what the server has closed.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
