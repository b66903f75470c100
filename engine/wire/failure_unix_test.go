//go:build unix

package wire

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// A name that cannot be looked up for want of open files says nothing of the engine; one that does not exist is the engine's.
func TestALookUpWithoutOpenFilesIsOurs(t *testing.T) {
	failure := func() engine.FailKind {
		return transportFailure(&dialError{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "dial udp: socket: too many open files", IsTemporary: true}}}).Kind
	}
	require.Equal(t, engine.Refused, failure())
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: before.Max}))
	kind := failure()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	require.Equal(t, engine.Local, kind)
}
