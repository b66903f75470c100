package ingress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
)

func TestSLOHeadersThatMakeNoSense(t *testing.T) {
	front := newFront(nil)
	e := newEdge(t, testConfig(), front)
	for _, name := range []string{headerTTFT, headerTPOT} {
		for _, value := range []string{"", "soon", "2s", "0", "-1", "NaN", "Inf", "1e300", "3600001", "1 2", "0x10p"} {
			rec := e.do("POST", pathChat, withMember(pathChat, ""), name, value)
			requireParam(t, rec.Code, rec.Body.Bytes(), name)
		}
	}
	require.Empty(t, front.submitted(), "no bad request reaches a router")
}

// What the client says of one of the two comes before what goes for its class.
func TestSLOOfAClass(t *testing.T) {
	front := newFront(says("x"))
	cfg := testConfig()
	second, ms := time.Second, time.Millisecond
	cfg.SLOs = map[queue.Class]stream.SLO{queue.Priority: {TTFT: &second, TPOT: &ms}}
	e := newEdge(t, cfg, front)
	of := func(member string, header ...string) stream.SLO {
		rec := e.do("POST", pathChat, withMember(pathChat, member), header...)
		require.Equal(t, 200, rec.Code, rec.Body)
		all := front.submitted()
		return all[len(all)-1].SLO
	}
	require.Equal(t, stream.SLO{}, of(""))
	require.Equal(t, stream.SLO{TTFT: &second, TPOT: &ms}, of(`"service_tier":"priority"`))
	require.Equal(t, stream.SLO{TTFT: new(3 * second), TPOT: &ms}, of(`"service_tier":"priority"`, headerTTFT, "3000"))
	require.Equal(t, stream.SLO{TPOT: new(7 * ms)}, of(`"service_tier":"flex"`, headerTPOT, "7"))
	require.Equal(t, second, *cfg.SLOs[queue.Priority].TTFT, "a request changes nothing for others")

	cfg.SLOs[queue.Flex] = stream.SLO{TTFT: new(time.Duration)}
	require.Error(t, cfg.Validate())
}
