package chaos

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// link carries the connections from Plimsoll to one port of an engine, and gets in their way.
type link struct {
	listen  func() (net.Listener, error) // always the same address
	dial    func(ctx context.Context) (net.Conn, error)
	engine  int
	tracker *tracker // nil: what is said is not looked at

	closing context.Context //nolint:containedctx // the link's own life
	close   context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener         // guarded by mu; nil: connections are refused
	conns    map[*passage]bool    // guarded by mu
	latency  time.Duration        // guarded by mu
	jitter   time.Duration        // guarded by mu
	gate     chan struct{}        // guarded by mu; nil: open; else it is closed when the partition heals
	flag     map[*passage]cutting // guarded by mu; to be cut in the middle of what comes next
	patience time.Duration        // guarded by mu; after which a flagged one is cut though nothing comes on it
}

// cutting is a connection that is to be cut.
type cutting struct{ late *time.Timer }

// cutWithin is when a connection is cut though nothing comes on it.
const cutWithin = time.Second

func newLink(engine int, t *tracker, listen func() (net.Listener, error), dial func(context.Context) (net.Conn, error)) (*link, error) {
	l := &link{
		engine: engine, tracker: t, listen: listen, dial: dial, conns: map[*passage]bool{}, flag: map[*passage]cutting{}, patience: cutWithin,
	}
	l.closing, l.close = context.WithCancel(context.Background())
	return l, l.accept()
}

// accept listens, unless it does.
func (l *link) accept() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		return nil
	}
	listener, err := l.listen()
	if err != nil {
		return err
	}
	l.listener = listener
	l.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.running.Go(func() { l.carry(conn) })
		}
	})
	return nil
}

// refuse has connections refused, as they are where no process listens.
func (l *link) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
}

// delay has all bytes come late.
func (l *link) delay(latency, jitter time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latency, l.jitter = latency, jitter
}

// part lets nothing through until heal.
func (l *link) part() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate == nil {
		l.gate = make(chan struct{})
	}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate != nil {
		close(l.gate)
		l.gate = nil
	}
}

// shut ends everything.
func (l *link) shut() {
	l.refuse()
	l.close()
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, p := range open {
		p.ended(EndLeft)
		p.shut()
	}
	l.running.Wait()
}

// pass waits until bytes may go on.
func (l *link) pass() error {
	for {
		l.mu.Lock()
		gate, wait := l.gate, l.latency
		if l.jitter > 0 {
			wait += time.Duration(rand.Int64N(int64(l.jitter)))
		}
		l.mu.Unlock()
		if gate == nil && wait == 0 {
			return nil
		}
		var timer <-chan time.Time
		if gate == nil {
			t := time.NewTimer(wait)
			defer t.Stop()
			timer = t.C
		}
		select {
		case <-gate:
		case <-timer:
			return nil
		case <-l.closing.Done():
			return l.closing.Err()
		}
	}
}

// passage is one connection and its continuation to the engine.
type passage struct {
	l       *link
	serve   net.Conn
	engine  net.Conn
	once    sync.Once
	mu      sync.Mutex
	watch   watch    // guarded by mu
	attempt *Attempt // guarded by mu; nil: none is under way
	used    bool     // guarded by mu; a request was answered whole on it
}

func (p *passage) shut() {
	p.once.Do(func() {
		_ = p.serve.Close()
		_ = p.engine.Close()
	})
}

// carry serves one connection to its end.
func (l *link) carry(serve net.Conn) {
	ctx, cancel := context.WithTimeout(l.closing, 10*time.Second)
	defer cancel()
	if l.pass() != nil {
		_ = serve.Close()
		return
	}
	engine, err := l.dial(ctx)
	if err != nil {
		reset(serve)
		return
	}
	p := &passage{l: l, serve: serve, engine: engine}
	l.mu.Lock()
	l.conns[p] = true
	closed := l.closing.Err() != nil
	l.mu.Unlock()
	if closed {
		p.shut()
	}
	var up sync.WaitGroup
	up.Go(p.up)
	p.down()
	p.shut()
	up.Wait()
	l.mu.Lock()
	delete(l.conns, p)
	if c, ok := l.flag[p]; ok {
		c.late.Stop()
		delete(l.flag, p)
	}
	l.mu.Unlock()
}

// reset closes a connection as a dead process does.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// up carries what Plimsoll says.
func (p *passage) up() {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.serve.Read(buf)
		if err != nil {
			p.ended(EndLeft)
			if p.l.pass() == nil {
				p.shut()
			}
			return
		}
		p.said(buf[:n])
		if p.l.pass() != nil {
			return
		}
		if _, err := p.engine.Write(buf[:n]); err != nil {
			p.closed()
			p.shut()
			return
		}
	}
}

func (p *passage) said(data []byte) {
	if p.l.tracker == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.watch.request(data); o != nil {
		p.attempt = p.l.tracker.began(p.l.engine, o, p.cut)
	}
}

// down carries what the engine says.
func (p *passage) down() {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.engine.Read(buf)
		if n > 0 {
			if p.l.pass() != nil {
				return
			}
			if p.toCut() {
				_, _ = p.serve.Write(buf[:(n+1)/2])
				p.ended(EndBroken)
				return
			}
			if _, err := p.serve.Write(buf[:n]); err != nil {
				p.ended(EndLeft)
				return
			}
			p.heard(buf[:n])
		}
		if err != nil {
			p.closed()
			_ = p.l.pass() // a partition hides the end too
			if !errors.Is(err, net.ErrClosed) && isReset(err) {
				reset(p.serve)
			}
			return
		}
	}
}

func (p *passage) heard(data []byte) {
	if p.l.tracker == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	begun, ended := p.watch.answer(data)
	p.used = p.used || ended
	if p.attempt == nil {
		return
	}
	if begun {
		p.l.tracker.first(p.attempt, p.watch.status)
	}
	if ended {
		p.l.tracker.ended(p.attempt, EndWhole)
		p.attempt = nil
	}
}

// closed notes that the engine closed the connection.
func (p *passage) closed() {
	p.mu.Lock()
	stale := p.used && p.watch.unanswered()
	p.mu.Unlock()
	if stale {
		p.ended(EndStale)
	} else {
		p.ended(EndBroken)
	}
}

func (p *passage) ended(how End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attempt != nil {
		p.l.tracker.ended(p.attempt, how)
		p.attempt = nil
	}
}

// cut has the connection break in the middle of what comes next.
func (p *passage) cut() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if _, ok := p.l.flag[p]; !ok && p.l.conns[p] {
		p.l.flag[p] = cutting{time.AfterFunc(p.l.patience, func() {
			p.ended(EndBroken)
			p.shut()
		})}
	}
}

func (p *passage) toCut() bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	_, ok := p.l.flag[p]
	return ok
}

// isReset says whether the other side reset the connection rather than closed it.
func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
