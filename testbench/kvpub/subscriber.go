package kvpub

import (
	"net"
	"sync"
)

// topicsMax bounds what one peer may subscribe to.
const topicsMax = 1024

// subscriber is one connection to a SUB: a bounded queue that the publisher fills and a goroutine empties.
type subscriber struct {
	conn net.Conn
	wake chan struct{} // capacity 1

	mu     sync.Mutex
	topics map[string]int // guarded by mu; how often each prefix was subscribed to
	queue  [][]byte       // guarded by mu; batches as they go on the wire, shared and read-only
	unsent int            // guarded by mu; batches that write has taken and not sent
}

func newSubscriber(conn net.Conn) *subscriber {
	return &subscriber{conn: conn, wake: make(chan struct{}, 1), topics: make(map[string]int)}
}

// hear takes what the peer sent and reports whether the set of its topics has grown. It is false with an error if the peer
// is to be cut.
func (s *subscriber) hear(m message, hwm int) (grown bool, err error) {
	var topic []byte
	var on bool
	switch name, body := m.command(); {
	case name == "SUBSCRIBE" || name == "CANCEL":
		topic, on = body, name == "SUBSCRIBE"
	case name == "PING" && len(body) >= 2:
		s.offer(appendFrame(nil, flagCommand, append([]byte("\x04PONG"), body[2:]...)), hwm)
		return false, nil
	case m.isCommand || len(m.frames) != 1 || len(m.frames[0]) == 0 || m.frames[0][0] > 1:
		return false, nil // not for a PUB
	default:
		topic, on = m.frames[0][1:], m.frames[0][0] == 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := s.topics[string(topic)]; {
	case on && n == 0 && len(s.topics) == topicsMax:
		return false, errProtocol
	case on:
		s.topics[string(topic)]++
	case n > 1:
		s.topics[string(topic)]--
	default:
		delete(s.topics, string(topic))
	}
	return on, nil
}

func (s *subscriber) wants(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix := range s.topics {
		if len(prefix) <= len(topic) && topic[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}

// offer queues what goes on the wire unless hwm wait already.
func (s *subscriber) offer(wire []byte, hwm int) bool {
	s.mu.Lock()
	full := len(s.queue)+s.unsent >= hwm
	if !full {
		s.queue = append(s.queue, wire)
	}
	s.mu.Unlock()
	s.notify()
	return !full
}

func (s *subscriber) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write sends what is queued until the connection breaks or gone is closed.
func (s *subscriber) write(gone <-chan struct{}) {
	var taken [][]byte
	var joined []byte
	for {
		select {
		case <-s.wake:
		case <-gone:
			return
		}
		taken = s.take(taken)
		for i := 0; i < len(taken); {
			first := i
			joined = joined[:0]
			for ; i < len(taken) && (i == first || len(joined)+len(taken[i]) <= writeBytes); i++ {
				joined = append(joined, taken[i]...)
			}
			if _, err := s.conn.Write(joined); err != nil {
				_ = s.conn.Close() // which ends the reader, and that the connection
				return
			}
			s.sent(i - first)
		}
	}
}

// take empties the queue into a slice that the writer gives back.
func (s *subscriber) take(empty [][]byte) [][]byte {
	clear(empty)
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.queue
	s.queue, s.unsent = empty[:0], len(taken)
	return taken
}

func (s *subscriber) sent(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent -= n
}

// writeBytes is how much goes into one system call at the most, unless one batch has more.
const writeBytes = 256 << 10
