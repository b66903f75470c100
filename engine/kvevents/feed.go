package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"

	"plimsoll/engine"
)

// newsKind is what the goroutines at the sockets tell the one that owns the machine.
type newsKind uint8

const (
	opened  newsKind = iota // a publisher is connected: who
	closed                  // its connection broke: who; 0: it could not be made
	told                    // a published message: who, seq, payload
	noise                   // one that is none: who
	answer                  // a replayed batch: who is the attempt
	ended                   // the end marker of a replay: who is the attempt
	aborted                 // the replay broke off: who is the attempt
	gaveUp                  // the endpoint cannot be listened on: err
)

type news struct {
	kind    newsKind
	who     uint64
	seq     uint64
	payload []byte
	err     error
}

// feed is one subscription's sockets. Its goroutines end with ctx.
type feed struct {
	*Source
	ctx context.Context //nolint:containedctx // the feed is a call of Subscribe, and lives as long
	out chan news
	// large has an entry for each long payload in out: messages may be far longer than engines make them.
	large chan struct{}
}

func newFeed(ctx context.Context, s *Source) *feed {
	return &feed{
		Source: s, ctx: ctx, out: make(chan news, newsMax),
		large: make(chan struct{}, max(1, s.cfg.BufferBytesMax/s.cfg.MessageBytesMax)),
	}
}

// newsMax is how many messages wait for the machine. Beyond that they wait in the publisher's queue, whose bound is the
// one to set: nothing is dropped here.
const newsMax = 256

// long says whether a payload is of those of which BufferBytesMax allows to wait: newsMax of the others are few bytes.
func (n *news) long() bool { return len(n.payload) > readBytes }

// tell hands news on; it reports false if the subscription has ended.
func (f *feed) tell(n news) bool {
	if n.long() {
		select {
		case f.large <- struct{}{}:
		case <-f.ctx.Done():
			return false
		}
	}
	select {
	case f.out <- n:
		return true
	case <-f.ctx.Done():
		return false
	}
}

// connect keeps a connection to the publisher.
func (f *feed) connect() {
	wait := f.cfg.ConnectFirst
	for id := uint64(1); ; id++ {
		began := time.Now()
		c, undo, err := f.dial(f.ctx, f.cfg.Endpoint, zmq4.Sub)
		if err == nil {
			err = f.listenTo(c, id, func() {}) // it is the only one
			undo()
		} else {
			f.tell(news{kind: closed})
		}
		if f.ctx.Err() != nil {
			return
		}
		f.deps.Log.Debug("cache event publisher is not connected", slog.Any("error", err))
		if time.Since(began) > f.cfg.ConnectMax+f.cfg.ConnectTimeout {
			wait = f.cfg.ConnectFirst
		}
		if !f.pause(wait) {
			return
		}
		wait = min(2*wait, f.cfg.ConnectMax)
	}
}

// pause waits between half of d and d. It reports false if the subscription ends meanwhile.
func (f *feed) pause(d time.Duration) bool {
	timer := time.NewTimer(jittered(d, f.deps.Entropy()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.ctx.Done():
		return false
	}
}

// accept takes the connections of engines that connect out.
func (f *feed) accept(sockets *sync.WaitGroup) {
	address, err := addressOf(f.cfg.Endpoint, true)
	if err == nil {
		var l net.Listener
		listen := net.ListenConfig{KeepAliveConfig: keepAlive()}
		if l, err = listen.Listen(f.ctx, "tcp", address); err == nil {
			defer func() { _ = l.Close() }()
			defer context.AfterFunc(f.ctx, func() { _ = l.Close() })()
			f.bound(l.Addr())
			f.tell(news{kind: closed}) // nobody is connected yet
			err = f.acceptFrom(l, sockets)
		}
	}
	f.tell(news{kind: gaveUp, err: &engine.Failure{Kind: engine.Refused, Err: err}})
}

func (f *feed) acceptFrom(l net.Listener, sockets *sync.WaitGroup) error {
	room := make(chan struct{}, f.cfg.ConnectionsMax)
	var present guests
	for id := uint64(1); ; id++ {
		raw, err := l.Accept()
		if err != nil {
			if f.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return err
			}
			if !f.pause(f.cfg.ConnectFirst) { // out of file descriptors, or the peer has gone already
				return f.ctx.Err()
			}
			continue
		}
		if len(room) == cap(room) && present.closeIdle() {
			f.deps.Log.Debug("cache event publisher is closed for another: it has never published")
		}
		select {
		case room <- struct{}{}:
		case <-f.ctx.Done():
			_ = raw.Close()
			return f.ctx.Err()
		}
		present.enter(id, raw)
		sockets.Go(func() {
			defer func() { <-room }()
			defer present.leave(id)
			c, undo, err := f.shake(f.ctx, raw, zmq4.Sub, true)
			if err == nil {
				err = f.listenTo(c, id, func() { present.published(id) })
				undo()
			}
			f.deps.Log.Debug("cache event publisher has gone", slog.Any("error", err))
		})
	}
}

// listenTo subscribes on a connection and hands on what comes until it breaks. spoke is called at its first message.
func (f *feed) listenTo(c *zmq4.Conn, id uint64, spoke func()) (err error) {
	defer func() { f.tell(news{kind: closed, who: id}) }()
	defer contain(&err)
	if err := c.SendMsg(zmq4.NewMsg(append([]byte{1}, f.cfg.Topic...))); err != nil {
		return err
	}
	if !f.tell(news{kind: opened, who: id}) {
		return f.ctx.Err()
	}
	for silent := true; ; {
		m, err := c.RecvMsg()
		if err != nil {
			return err
		}
		if m.Type != zmq4.UsrMsg {
			continue
		}
		n := news{kind: told, who: id}
		var ok bool
		if n.seq, n.payload, ok = parse(m.Frames); !ok {
			n.kind = noise
		} else if silent {
			silent = false
			spoke()
		}
		if !f.tell(n) {
			return f.ctx.Err()
		}
	}
}

// endMarker is the number of the message that ends a replay.
const endMarker = math.MaxUint64

// parse reads a message from its end, because what comes before differs: live [topic, seq, payload], replayed
// ["", seq, payload] or ["", topic, seq, payload].
func parse(frames [][]byte) (seq uint64, payload []byte, ok bool) {
	n := len(frames)
	if n < 2 || len(frames[n-2]) != 8 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(frames[n-2]), frames[n-1], true
}

// replay asks for what was published from a number on and hands the answers on. Failing is an answer, too.
func (f *feed) replay(ctx context.Context, attempt, from uint64) {
	err := f.answers(ctx, attempt, from)
	if err != nil && ctx.Err() == nil {
		f.deps.Log.Debug("cache event replay failed", slog.Any("error", err))
		f.tell(news{kind: aborted, who: attempt})
	}
}

func (f *feed) answers(ctx context.Context, attempt, from uint64) (err error) {
	defer contain(&err)
	c, undo, err := f.dial(ctx, f.cfg.ReplayEndpoint, zmq4.Dealer)
	if err != nil {
		return err
	}
	defer undo()
	if err := c.SendMsg(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, from))); err != nil {
		return err
	}
	for {
		m, err := c.RecvMsg()
		if err != nil {
			return err
		}
		if m.Type != zmq4.UsrMsg {
			continue
		}
		seq, payload, ok := parse(m.Frames)
		switch {
		case !ok:
			return errors.New("kvevents: a replayed message without a sequence number")
		case seq == endMarker:
			f.tell(news{kind: ended, who: attempt})
			return nil
		case !f.tell(news{kind: answer, who: attempt, seq: seq, payload: payload}):
			return f.ctx.Err()
		}
	}
}
