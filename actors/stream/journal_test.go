package stream

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
)

func entry(text string) []Entry { return []Entry{{Text: text}} }

func TestNextGivesEachLegItsTurn(t *testing.T) {
	r := NewResponse(3, func() {})
	fill := func() {
		for leg := range 3 {
			r.Append(leg, entry("x"), Usage{})
		}
	}
	fill()
	for i := range 30 {
		d, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, i%3, d.Leg, "a leg that always has something starves no other")
		fill()
	}
}

func TestNextGivesWhatHasGatheredAtOnce(t *testing.T) {
	r := NewResponse(2, func() {})
	require.Positive(t, r.Append(0, entry("a"), Usage{}))
	r.Append(0, entry("b"), Usage{})
	r.Finish(0, Finish{Text: "!"}, Usage{CompletionTokens: 2})
	r.Finish(1, Finish{Reason: StopLength}, Usage{CompletionTokens: 2})
	d, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, Delta{Leg: 0, Entries: []Entry{{Text: "a"}, {Text: "b"}}, Finish: &Finish{Text: "!"}}, d)
	d, err = r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, Delta{Leg: 1, Finish: &Finish{Reason: StopLength}}, d)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Next(ctx)
	require.ErrorIs(t, err, context.Canceled, "every leg has finished, but the response has not ended")
	r.End(nil)
	_, err = r.Next(t.Context())
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 2, r.Usage().CompletionTokens)
}

func TestAFaultIsHeardAtOnceAndKeepsNothing(t *testing.T) {
	r := NewResponse(1, func() {})
	require.Positive(t, r.Append(0, entry("unread"), Usage{}))
	r.End(fault.New(fault.EngineFailed, "broken"))
	r.End(nil)
	r.End(fault.New(fault.Internal, "late"))
	for range 2 {
		_, err := r.Next(t.Context())
		require.Equal(t, fault.EngineFailed, kindOf(err), "the first end counts")
	}
	require.Equal(t, leg{}, r.legs[0])
}

func TestUnreadBytesAreThoseOfAllLegs(t *testing.T) {
	r := NewResponse(2, func() {})
	one := r.Append(0, entry("hello"), Usage{})
	require.Equal(t, (&Entry{Text: "hello"}).Bytes(), one)
	require.Equal(t, 2*one, r.Append(1, entry("hello"), Usage{}))
	_, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2*one, r.Append(0, entry("hello"), Usage{}), "what is taken counts no more")
	plain, full := Entry{Text: "x"}, Entry{Text: "x", Logprob: &engine.Logprob{Top: make([]engine.RankedToken, 20)}}
	require.Greater(t, full.Bytes(), plain.Bytes()+20*12)
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewResponse(1, func() {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		got := make(chan Delta, 1)
		go func() {
			d, _ := r.Next(t.Context())
			got <- d
		}()
		synctest.Wait()
		require.Empty(t, got)
		r.Append(0, entry("x"), Usage{})
		require.Equal(t, entry("x"), (<-got).Entries, "it may be called again after its context has ended")
	})
}

func TestReplicasAreACopy(t *testing.T) {
	r := NewResponse(2, func() {})
	r.Placed(1, "b", time.Unix(7, 0))
	r.Replicas()[1] = "x"
	require.Equal(t, []string{"", "b"}, r.Replicas())
}

// TestWay: each time is that of the first of its kind.
func TestWay(t *testing.T) {
	r := NewResponse(2, func() {})
	require.Equal(t, Way{}, r.Way())
	r.Encoded(time.Unix(6, 0))
	r.Encoded(time.Unix(60, 0)) // the router has begun anew
	r.Placed(1, "b", time.Unix(7, 0))
	r.Placed(0, "a", time.Unix(8, 0))
	r.Append(1, []Entry{{Stamp: time.Unix(9, 0)}}, Usage{})
	r.Append(0, []Entry{{Stamp: time.Unix(10, 0)}}, Usage{})
	at := func(s int64) *time.Time { return new(time.Unix(s, 0)) }
	require.Equal(t, Way{EncodedAt: at(6), PlacedAt: at(7), FirstTokenAt: at(9), Attempts: 2}, r.Way())
}

func TestInbox(t *testing.T) {
	b := newInbox()
	require.True(t, b.put(1))
	require.True(t, b.put(2))
	<-b.wake
	require.Equal(t, []any{1, 2}, b.take())
	require.Empty(t, b.take())
	require.True(t, b.put(3))
	require.Equal(t, []any{3}, b.close())
	require.False(t, b.put(4), "nobody reads any more")
	require.Empty(t, b.close())
}

func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAlarm()
		defer a.stop()
		began := time.Now()
		ring := func() time.Duration {
			select {
			case <-a.rings():
				a.rung()
				return time.Since(began)
			case <-time.After(time.Hour):
				return -1
			}
		}
		require.Equal(t, time.Duration(-1), ring(), "it was not set")
		began = time.Now()
		a.set(began.Add(3*time.Second), true)
		a.set(began.Add(9*time.Second), true)
		require.Equal(t, 3*time.Second, ring(), "a later time leaves it where it is: it may ring early")
		a.set(began.Add(9*time.Second), true)
		a.set(time.Time{}, false)
		a.set(began.Add(5*time.Second), true)
		require.Equal(t, 5*time.Second, ring(), "a sooner time moves it")
		a.set(began, true)
		require.Equal(t, 5*time.Second+supervise.Soon(0), ring(), "what is due rings soon")
	})
}

// TestALegThatBeginsAnew: the reader hears of it once, before anything of the new beginning, whether it had read or not.
func TestALegThatBeginsAnew(t *testing.T) {
	for _, reads := range []bool{true, false} {
		r := NewResponse(2, func() {})
		r.Append(0, entry("old"), Usage{CompletionTokens: 1})
		if reads {
			_, err := r.Next(t.Context())
			require.NoError(t, err)
		}
		r.Restart(0, Usage{})
		require.Zero(t, r.Usage().CompletionTokens)
		unread := r.Append(0, entry("new"), Usage{CompletionTokens: 1})
		require.Equal(t, (&Entry{Text: "new"}).Bytes(), unread)
		d, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, Delta{Leg: 0, Restarted: true, Entries: entry("new")}, d)
		r.Append(0, entry("more"), Usage{CompletionTokens: 2})
		d, err = r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, Delta{Leg: 0, Entries: entry("more")}, d)
		r.Restart(0, Usage{})
		d, err = r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, Delta{Leg: 0, Restarted: true}, d)
	}
}
