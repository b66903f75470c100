package wire

import (
	"net"
	"net/netip"
	"sync"
)

// peer is where a client's connections end: the address of the server's socket, whatever name it was asked for by.
type peer struct {
	mu      sync.Mutex
	address string // guarded by mu; of the last connection's other end
	name    string // guarded by mu; what Peer says of it
}

// connected notes a connection that is used.
func (p *peer) connected(conn net.Conn) {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return
	}
	address := remote.String()
	p.mu.Lock()
	defer p.mu.Unlock()
	if address == p.address {
		return
	}
	p.address, p.name = address, place(remote.AddrPort())
}

// place names a socket's address. All addresses of this machine are one: a server that listens on all of them is reached by each.
func place(at netip.AddrPort) string {
	ip := at.Addr().Unmap().WithZone("")
	if ip.IsLoopback() || ours(ip) {
		return netip.AddrPortFrom(netip.IPv6Loopback(), at.Port()).String()
	}
	return netip.AddrPortFrom(ip, at.Port()).String()
}

// ours says whether an address is one of this machine's.
func ours(ip netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false // they are only told apart then
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap().WithZone("") == ip {
			return true
		}
	}
	return false
}

// Peer names where the last connection of the client ended: equal for two clients whose connections end at one socket. ""
// before the first one, and where connections have no such address.
func (c *Client) Peer() string {
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	return c.peer.name
}
