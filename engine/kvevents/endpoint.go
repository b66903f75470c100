package kvevents

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

const scheme = "tcp://"

// split takes a ZeroMQ endpoint of the TCP transport apart.
func split(endpoint string) (host string, port int, err error) {
	address, ok := strings.CutPrefix(endpoint, scheme)
	if !ok {
		return "", 0, fmt.Errorf("%q: want tcp://HOST:PORT", endpoint)
	}
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%q: want tcp://HOST:PORT: %w", endpoint, err)
	}
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q: the port is no number from 0 to 65535", endpoint)
	}
	return host, int(number), nil
}

func join(host string, port int) string { return scheme + net.JoinHostPort(host, strconv.Itoa(port)) }

// wildcard says whether a host names every interface, so that nobody can connect to it.
func wildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "*" || ip != nil && ip.IsUnspecified()
}

// addressOf returns the address of an endpoint to listen on or to connect to.
func addressOf(endpoint string, listen bool) (string, error) {
	host, port, err := split(endpoint)
	switch {
	case err != nil:
		return "", err
	case listen && wildcard(host) && host != "::":
		host = ""
	case !listen && wildcard(host):
		return "", fmt.Errorf("%q: a wildcard is no host to connect to", endpoint)
	case !listen && port == 0:
		return "", fmt.Errorf("%q: port 0 is none to connect to", endpoint)
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// OffsetPort returns the endpoint of a data-parallel rank, given rank 0's: engines add the rank to the port.
func OffsetPort(endpoint string, rank int) (string, error) {
	host, port, err := split(endpoint)
	if err != nil {
		return "", err
	}
	if rank < 0 || port+rank > 65535 {
		return "", fmt.Errorf("%q: no port for rank %d", endpoint, rank)
	}
	return join(host, port+rank), nil
}

// reachable replaces a wildcard host by the engine's.
func reachable(endpoint, engineHost string) (string, error) {
	host, port, err := split(endpoint)
	if err != nil {
		return "", err
	}
	if wildcard(host) {
		host = strings.Trim(engineHost, "[]")
	}
	return join(host, port), nil
}
