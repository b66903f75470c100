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

// sameEnd is how long a signal to end may come again and be the same: timeout(1) and shells signal a process and its group.
const sameEnd = time.Second

// errEnded is the error of a process that a second signal has ended.
var errEnded = errors.New("ended at once by a second signal; running requests were cut off")

// run serves until a signal comes, and then goes down: requests that run may end within the drain time, new ones get 503,
// and so does /ready, for which the port stays open. A second signal ends all of it at once. A signal to reload has what can change
// meanwhile read again.
func (n *node) run(ends, reloads <-chan os.Signal) error {
	served := make(chan error, 1)
	go func() { served <- n.server.Serve(n.listener) }()
	go n.admin.serve(n.log)
	address, scheme := n.listener.Addr().String(), "http://"
	if n.config.TLSCert != nil {
		scheme = "https://"
	}
	n.warnOpen()
	n.log.Info("listening", slog.String("address", address), slog.String("url", scheme+address))
	for {
		select {
		case err := <-served:
			return errors.Join(err, n.stop())
		case <-reloads:
			n.reload()
		case s := <-ends:
			n.log.Info("shutting down", slog.String("signal", s.String()), slog.Float64("drain_timeout_seconds", n.config.DrainTimeout.Seconds()),
				slog.Int("requests", n.system.Live()))
			down := make(chan error, 1)
			go func() { down <- n.shutdown() }()
			return endOf(down, ends, n.log)
		}
	}
}

// endOf waits for the end of what goes down since a signal, which a second one does not wait for.
func endOf(down <-chan error, ends <-chan os.Signal, log *slog.Logger) error {
	again := time.Now().Add(sameEnd)
	for {
		select {
		case err := <-down:
			return err
		case s := <-ends:
			if time.Now().Before(again) {
				log.Info("a signal again so soon changes nothing", slog.String("signal", s.String()))
				continue
			}
			return errEnded
		}
	}
}

// warnOpen says which ports whoever reaches this machine may use.
func (n *node) warnOpen() {
	if n.config.APIKeyFile == nil && !loopback(n.listener) {
		n.log.Warn("whoever reaches this address may use the API: name a file of keys with --api-key-file, or listen on 127.0.0.1",
			slog.String("address", n.listener.Addr().String()))
	}
	if n.admin != nil && n.config.APIKeyFile == nil && n.operators == nil && !n.admin.loopback() {
		n.log.Warn("whoever reaches this address may read what operators do: name a file of keys with --admin-key-file, or listen on 127.0.0.1",
			slog.String("address", n.admin.listener.Addr().String()))
	}
}

// shutdown serves on for a while as one that leaves, lets running requests end, then ends everything.
func (n *node) shutdown() error {
	if delay := n.config.ShutdownDelay; delay > 0 {
		n.server.Leave()
		n.log.Info("serving on, not ready any more", slog.Float64("shutdown_delay_seconds", delay.Seconds()))
		<-time.After(delay)
	}
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
