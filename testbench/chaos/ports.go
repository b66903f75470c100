package chaos

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"
)

const (
	// Ports are taken from below those that the kernel gives to outgoing connections, because a port must be had again after
	// a fault.
	firstPort, lastPort = 20_000, 31_000
	// portWait is how long a port is waited for that had been ours.
	portWait = 5 * time.Second
)

// ports hands out free ports of the loopback, each once.
type ports struct{ next int }

func newPorts(seed int) *ports { return &ports{firstPort + seed%(lastPort-firstPort)} }

// take returns n ports in a row that nobody listens on.
func (p *ports) take(ctx context.Context, n int) (int, error) {
	for range lastPort - firstPort {
		if p.next+n > lastPort {
			p.next = firstPort
		}
		first := p.next
		p.next++
		if allFree(ctx, first, n) {
			p.next = first + n
			return first, nil
		}
	}
	return 0, errors.New("chaos: no port is free")
}

func allFree(ctx context.Context, first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", loopback(port))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// listener returns how to listen on a port, again and again.
func listener(port int) func() (net.Listener, error) {
	return func() (net.Listener, error) {
		ctx, cancel := context.WithTimeout(context.Background(), portWait)
		defer cancel()
		for {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", loopback(port))
			if err == nil || !errors.Is(err, syscall.EADDRINUSE) || ctx.Err() != nil {
				return l, err
			}
			pause(ctx, 20*time.Millisecond)
		}
	}
}

// dialer returns how to connect to an address.
func dialer(address string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
