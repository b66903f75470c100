package kvevents

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

var errTooLong = errors.New("kvevents: a message is longer than allowed")

// keepAlive finds out within half a minute that a machine is gone: an idle engine publishes nothing, and its publisher
// sends no sign of life.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}
}

// dial connects to an endpoint and shakes hands as a socket of kind typ. The connection is closed when ctx ends; undo
// releases what that takes.
func (s *Source) dial(ctx context.Context, endpoint string, typ zmq4.SocketType) (c *zmq4.Conn, undo func(), err error) {
	address, err := addressOf(endpoint, false)
	if err != nil {
		return nil, nil, err
	}
	dialer := net.Dialer{Timeout: s.cfg.ConnectTimeout, KeepAliveConfig: keepAlive()}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	return s.shake(ctx, raw, typ, false)
}

// shake makes a ZMTP connection of a TCP one, within the time for connecting.
func (s *Source) shake(
	ctx context.Context, raw net.Conn, typ zmq4.SocketType, server bool,
) (c *zmq4.Conn, undo func(), err error) {
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	undo = func() {
		stop()
		_ = raw.Close()
	}
	if err := raw.SetDeadline(time.Now().Add(s.cfg.ConnectTimeout)); err != nil {
		undo()
		return nil, nil, err
	}
	c, err = open(newBounded(raw, s.cfg.MessageBytesMax), typ, server)
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		undo()
		return nil, nil, fmt.Errorf("kvevents: ZMTP handshake: %w", err)
	}
	return c, undo, nil
}

// open shakes hands with whatever is at the other end.
func open(conn *bounded, typ zmq4.SocketType, server bool) (c *zmq4.Conn, err error) {
	defer contain(&err)
	return zmq4.Open(conn, null.Security(), typ, nil, server, nil)
}

// contain, deferred around what reads a peer's bytes, makes an error of a panic there: zmq4 trusts the lengths within the
// command that ends a handshake, and the process serves other replicas too.
func contain(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("kvevents: panic: %v", v)
	}
}

// greetingBytes is how long the part of a ZMTP connection is that has no frames.
const greetingBytes = 64

// partsMax bounds the parts of one message; a publisher sends three, a replay four.
const partsMax = 16

// bounded follows the frames of a ZMTP connection while [zmq4.Conn] reads them and breaks off where a message would be
// too long. It has to, because Conn makes a buffer of whatever length a peer claims, before a byte of it has come, and
// it buffers, because Conn reads the two bytes of a header on their own.
type bounded struct {
	net.Conn
	in       *bufio.Reader
	bytesMax int

	left  int  // of the greeting, or of the present frame and its header
	bytes int  // of the message so far
	parts int  // likewise
	more  bool // the message goes on after this frame
}

const readBytes = 64 << 10

func newBounded(c net.Conn, bytesMax int) *bounded {
	return &bounded{Conn: c, in: bufio.NewReaderSize(c, readBytes), bytesMax: bytesMax, left: greetingBytes}
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		if err := b.frame(); err != nil {
			return 0, err
		}
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Bits of a frame's first byte (ZMTP 3, framing).
const (
	frameMore = 1 << 0
	frameLong = 1 << 1
)

// frame looks at the header of the next frame.
func (b *bounded) frame() error {
	header, err := b.in.Peek(2)
	if err != nil {
		return err
	}
	flags, length := header[0], uint64(header[1])
	if flags&frameLong != 0 {
		if header, err = b.in.Peek(9); err != nil {
			return err
		}
		length = binary.BigEndian.Uint64(header[1:])
	}
	if !b.more {
		b.bytes, b.parts = 0, 0
	}
	b.more = flags&frameMore != 0
	b.parts++
	if length > uint64(b.bytesMax-b.bytes) || b.parts > partsMax {
		return errTooLong
	}
	b.bytes += int(length)
	b.left = len(header) + int(length)
	return nil
}
