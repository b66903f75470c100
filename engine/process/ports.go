package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

// The ports that engines get lie below those that the kernel gives to outgoing connections: between the choice of a port and
// the moment at which an engine listens, a connection of anybody could otherwise take it.
const (
	portsFrom  = 20000
	portsUntil = 32768
	portTries  = 200
)

// Ports hands out free ports of the loopback interface, each to one engine at a time. It is safe for concurrent use.
type Ports struct {
	mu    sync.Mutex
	rng   *rand.Rand
	until int
	taken map[int]bool
}

// NewPorts returns a Ports that draws with the seed, so that two nodes of a machine seldom want the same.
func NewPorts(seed uint64) *Ports {
	return &Ports{rng: rand.New(rand.NewPCG(seed, 2)), until: outgoingFrom(), taken: map[int]bool{}}
}

// outgoingFrom is the first port that the kernel gives to outgoing connections, or what is usual.
func outgoingFrom() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	var first, last int
	if _, scan := fmt.Sscan(string(text), &first, &last); err != nil || scan != nil || first < portsFrom+1000 {
		return portsUntil
	}
	return min(first, portsUntil)
}

// Take returns a port at which nobody listens. It stays the caller's until Return.
func (p *Ports) Take(ctx context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last error
	for range portTries {
		port := portsFrom + p.rng.IntN(p.until-portsFrom)
		if p.taken[port] {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			last = err
			continue
		}
		p.taken[port] = true
		return port, nil
	}
	return 0, errors.Join(fmt.Errorf("no free port from %d to %d", portsFrom, p.until-1), last)
}

// Return gives a port back.
func (p *Ports) Return(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, port)
}
