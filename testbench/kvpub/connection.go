package kvpub

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"time"
)

// accept serves the connections of a listener until it is closed.
func (p *Publisher) accept(l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			p.pause() // out of file descriptors, most likely
		case p.enter(conn):
			p.running.Go(func() { serve(conn) })
		default:
			_ = conn.Close()
		}
	}
}

// dial serves connections to a subscriber that is bound, one after the other.
func (p *Publisher) dial(ctx context.Context) {
	at, _ := address(p.cfg.Endpoint) // Validate has seen it
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		switch {
		case err != nil:
		case p.enter(conn):
			p.serveSubscriber(conn)
		default:
			_ = conn.Close()
		}
		p.pause()
	}
}

// pause waits before the next try.
func (p *Publisher) pause() {
	t := time.NewTimer(p.cfg.Redial)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.closing:
	}
}

// enter books a connection unless the engine is down or has too many.
func (p *Publisher) enter(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.up || len(p.conns) >= p.cfg.Peers {
		return false
	}
	p.conns[conn] = nil
	return true
}

// leave ends a connection.
func (p *Publisher) leave(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// greet shakes hands with a peer of one of the kinds.
func greet(conn net.Conn, kind string, peers ...string) (*bufio.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	got, err := shake(conn, r, kind)
	if err != nil {
		return nil, err
	}
	for _, peer := range peers {
		if got == peer {
			return r, conn.SetDeadline(time.Time{})
		}
	}
	return nil, errProtocol
}

// serveSubscriber is a PUB's side of a connection.
func (p *Publisher) serveSubscriber(conn net.Conn) {
	defer p.leave(conn)
	r, err := greet(conn, "PUB", "SUB", "XSUB")
	if err != nil {
		return
	}
	s := newSubscriber(conn)
	if !p.join(conn, s) {
		return
	}
	gone, leave := context.WithCancel(context.Background())
	defer leave()
	p.running.Go(func() { s.write(gone.Done()) })
	for {
		m, err := readMessage(r)
		if err != nil {
			return
		}
		grown, err := s.hear(m, p.cfg.HWM)
		if err != nil {
			return
		}
		if grown {
			p.mu.Lock()
			p.tell()
			p.mu.Unlock()
		}
	}
}

// join makes a connection a subscriber's, unless it was cut meanwhile.
func (p *Publisher) join(conn net.Conn, s *subscriber) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.conns[conn]; !ok {
		return false
	}
	p.conns[conn] = s
	return true
}

// serveReplays is a ROUTER's side of a connection. Requests are answered one after the other, so that a peer that does not
// read holds up itself alone.
func (p *Publisher) serveReplays(conn net.Conn) {
	defer p.leave(conn)
	r, err := greet(conn, "ROUTER", "DEALER", "REQ", "ROUTER")
	if err != nil {
		return
	}
	w := bufio.NewWriterSize(conn, 64<<10)
	for {
		m, err := readMessage(r)
		if err != nil {
			return
		}
		start, ok := replayStart(m)
		if !ok {
			continue
		}
		if err := p.replay(w, start); err != nil {
			return
		}
	}
}

// replayStart reads a request.
func replayStart(m message) (start uint64, ok bool) {
	if m.isCommand || len(m.frames) != 2 || len(m.frames[0]) != 0 || len(m.frames[1]) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(m.frames[1]), true
}

// replay answers a request.
func (p *Publisher) replay(w *bufio.Writer, start uint64) error {
	p.mu.Lock()
	batches, next := p.ring.from(start), p.waiting
	fault := p.deps.Plan.Replay(start)
	if len(batches) == 0 && fault == Partial {
		fault = Answer // there is nothing to leave out
	}
	p.stats.Requests++
	p.stats.Replays[fault]++
	p.tell()
	p.mu.Unlock()

	ended := true
	switch fault {
	case Silent:
		return nil
	case Partial:
		batches = batches[(len(batches)+1)/2:]
	case Broken:
		batches, ended = batches[:len(batches)/2], false
	case Late:
		select {
		case <-next:
		case <-p.closing:
		}
	case Answer, NumReplayFaults:
	}
	empty := appendFrame(nil, flagMore, nil)
	for _, b := range batches {
		_, _ = w.Write(empty) // Flush says what went wrong
		_, _ = w.Write(b.replayed(p.cfg.Layout))
	}
	if ended {
		_, _ = w.Write(endMarker(p.cfg.Layout))
	}
	return w.Flush()
}

// endMarker is the last message of a replay: the frames of a batch without topic and payload, and the number -1.
func endMarker(layout Layout) []byte {
	wire := appendFrame(nil, flagMore, nil)
	if layout == WithTopic {
		wire = appendFrame(wire, flagMore, nil)
	}
	wire = appendFrame(wire, flagMore, binary.BigEndian.AppendUint64(nil, ^uint64(0)))
	return appendFrame(wire, 0, nil)
}
