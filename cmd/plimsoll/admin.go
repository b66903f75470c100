package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"

	"plimsoll/actors/admin"
)

// adminPort is the operators' port. A nil one does nothing: there is none.
type adminPort struct {
	listener net.Listener
	server   *http.Server
}

func listenAdmin(address string) (*adminPort, error) {
	l, err := listen("admin-listen", address)
	if err != nil {
		return nil, err
	}
	return &adminPort{listener: l, server: admin.NewServer(http.NotFoundHandler())}, nil
}

// loopback says whether only this machine reaches the port.
func (a *adminPort) loopback() bool {
	if a == nil {
		return false
	}
	at, ok := a.listener.Addr().(*net.TCPAddr)
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
	log.Info("listening for operators", slog.String("address", a.listener.Addr().String()))
	if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
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
