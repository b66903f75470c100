package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"
)

// writeWait is how long clients may take to read the ends of their answers after the last request has run.
const writeWait = 5 * time.Second

// errEnded is the error of a node that a second signal has ended.
var errEnded = errors.New("ended at once by a second signal; running requests were cut off")

// run serves until a signal comes, and then goes down: requests that run may end within the drain time, new ones get 503,
// and so does /ready, for which the port stays open. A second signal ends all of it at once.
func (n *node) run(signals <-chan os.Signal) error {
	served := make(chan error, 1)
	go func() { served <- n.server.Serve(n.listener) }()
	go n.admin.serve(n.log)
	address, scheme := n.listener.Addr().String(), "http://"
	if n.config.TLSCert != nil {
		scheme = "https://"
	}
	n.log.Info("listening", slog.String("address", address), slog.String("url", scheme+address))
	select {
	case err := <-served:
		return errors.Join(err, n.stop())
	case s := <-signals:
		n.log.Info("shutting down", slog.String("signal", s.String()), slog.Float64("drain_timeout_seconds", n.config.DrainTimeout.Seconds()),
			slog.Int("requests", n.system.Live()))
	}
	down := make(chan error, 1)
	go func() { down <- n.shutdown() }()
	select {
	case err := <-down:
		return err
	case <-signals:
		return errEnded
	}
}

// shutdown lets running requests end, then ends everything.
func (n *node) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), n.config.DrainTimeout)
	defer cancel()
	if err := n.system.Drain(ctx); err != nil {
		n.log.Warn("requests still run at the end of the drain time; they end with an error", slog.Int("requests", n.system.Live()))
	}
	stopped := n.stop()
	n.log.Info("ended")
	return stopped
}

// stop ends what runs, waits a little for clients to read what they were sent, and frees everything.
func (n *node) stop() error {
	stopped := errors.Join(n.system.Stop(), n.recording.close())
	ctx, cancel := context.WithTimeout(context.Background(), writeWait)
	defer cancel()
	if err := n.server.Shutdown(ctx); err != nil {
		n.log.Warn("clients did not read their answers to the end", slog.Any("error", err))
	}
	return errors.Join(stopped, n.server.Close(), n.admin.close(), n.tokenizer.Close())
}
