package ingress

import (
	"net"
	"sync"
)

// limitedListener holds at most a number of connections open; the next one is accepted when one of them closes.
type limitedListener struct {
	net.Listener
	seats  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newLimitedListener(l net.Listener, most int) *limitedListener {
	return &limitedListener{Listener: l, seats: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.seats <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.seats
		return nil, err
	}
	return &seatedConn{Conn: c, leave: func() { <-l.seats }}, nil
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// seatedConn gives its seat back when it is closed.
type seatedConn struct {
	net.Conn
	once  sync.Once
	leave func()
}

// Close implements net.Conn.
func (c *seatedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.leave)
	return err
}
