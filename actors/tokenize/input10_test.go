package tokenize

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/simmodel"
)

// held is the embedded model's tokenizer, of which encodes can be held up.
type held struct {
	*tokenizer.Model

	mu      sync.Mutex
	holds   func(text string) bool
	begun   chan string // texts that are held
	release chan struct{}
	encoded []int // bytes
}

func (h *held) Encode(text string, addSpecial bool) ([]uint32, error) {
	h.mu.Lock()
	h.encoded = append(h.encoded, len(text))
	h.mu.Unlock()
	if h.holds(text) {
		h.begun <- text
		<-h.release
	}
	return h.Model.Encode(text, addSpecial)
}

func (h *held) sizes() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.encoded)
}

func (h *held) prompts(in stream.Input) ([]stream.Prompt, error) {
	if in.Chat == nil {
		return plain(in)
	}
	text, err := h.Render(*in.Chat)
	return []stream.Prompt{{Text: text}}, err
}

func openHeld(t *testing.T, slots int, holds func(text string) bool) (*office, *held) {
	t.Helper()
	model, err := tokenizer.Load(simmodel.FS(), "embedded", time.Now)
	require.NoError(t, err)
	h := &held{Model: model, holds: holds, begun: make(chan string, 64), release: make(chan struct{})}
	t.Cleanup(func() { require.NoError(t, model.Close()) })
	return openOffice(t, DefaultConfig("m"), slots, h.prompts, h), h
}

func says(text string) stream.Input {
	messages, err := json.Marshal([]map[string]string{{"role": "user", "content": text}})
	if err != nil {
		panic(err)
	}
	return stream.Input{Chat: &chat.Request{Messages: messages}}
}

func randomLetters(n int) string {
	rng, text := rand.New(rand.NewPCG(10, 10)), make([]byte, n)
	for i := range text {
		text[i] = byte('a' + rng.IntN(26))
	}
	return string(text)
}

// ids are a chat's, encoded in one.
func (h *held) ids(t *testing.T, in stream.Input) []uint32 {
	t.Helper()
	_, ids, err := h.Chat(*in.Chat)
	require.NoError(t, err)
	return ids
}

// TestFieldInput10: four chats of 800 kB of random letters, or two of 1,200,000 blanks, hold no worker that a small chat needs, on a
// machine with one core too: it is served while all of them are still there.
func TestFieldInput10(t *testing.T) {
	for name, large := range map[string][]string{
		"letters": {randomLetters(800_000), randomLetters(800_000), randomLetters(800_000), randomLetters(800_000)},
		"blanks":  {strings.Repeat(" ", 1_200_000), strings.Repeat(" ", 1_200_000)},
	} {
		for _, slots := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				o, h := openHeld(t, slots, func(text string) bool { return len(text) > 64<<10 })
				var all []*stream.Response
				for _, text := range large {
					all = append(all, o.ask("large", says(text)))
				}
				<-h.begun // one is encoded, whole
				for range 3 {
					small := says("Hello, how are you?")
					_, err := o.ask("small", small).Next(t.Context())
					require.Error(t, err, "no replica serves")
					came := o.came()
					require.Equal(t, h.ids(t, small), came[len(came)-1].IDs)
				}
				require.Len(t, o.came(), 3)
				require.Equal(t, len(large), o.handle.Stats().Jobs, "the large ones are all there")
				for _, r := range all[1:] { // one is enough to see it to its end
					r.Cancel()
				}
				close(h.release)
				o.idle(t)
				require.Less(t, len(o.came()), 3+len(large))
			})
		}
	}
}

// TestFieldInput10ClientLeaves: what a client has sent is not encoded after it has left: nothing of it if it waits, no more than
// the slice that runs if it does not.
func TestFieldInput10ClientLeaves(t *testing.T) {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, and then again.\n", 33_000) // 2 MB
	o, h := openHeld(t, 2, func(text string) bool { return len(text) > 1<<10 })
	first := o.ask("large", says(prose))
	text := <-h.begun
	require.LessOrEqual(t, len(text), 64<<10, "a slice")
	second := o.ask("large", says(prose))
	third := make(chan error)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		_, err := o.handle.Prompts(ctx, says(prose), "large", queue.Default)
		third <- err
	}()
	require.Eventually(t, func() bool { return o.handle.Stats().Jobs == 3 }, time.Minute, time.Millisecond)
	first.Cancel()
	second.Cancel()
	leave()
	require.ErrorIs(t, <-third, context.Canceled)
	require.Eventually(t, func() bool { return o.handle.Stats().Jobs == 1 && o.live.Len() == 0 }, time.Minute, time.Millisecond,
		"the calls are gone, and so is what waits")
	close(h.release)
	o.idle(t)
	require.Len(t, h.sizes(), 1)
	require.Empty(t, o.came())
}

// TestSlices: a long text that can be cut is encoded in slices, and comes to the same; with special tokens around it too.
func TestSlices(t *testing.T) {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, and then again.\n", 5_000)
	o, h := openHeld(t, 2, func(string) bool { return false })
	for _, addSpecial := range []bool{false, true} {
		in := stream.Input{Texts: []string{"short", prose, "", prose + randomLetters(100_000) + " " + prose}, AddSpecial: addSpecial}
		prompts, err := o.handle.Prompts(t.Context(), in, "default", queue.Default)
		require.NoError(t, err)
		for i, text := range in.Texts {
			want, err := h.Model.Encode(text, addSpecial)
			require.NoError(t, err)
			require.True(t, slices.Equal(want, prompts[i].IDs), "text %d", i)
			require.Equal(t, text, prompts[i].Text)
		}
	}
	long := slices.DeleteFunc(h.sizes(), func(n int) bool { return n <= 64<<10 })
	require.Len(t, long, 2, "what cannot be cut runs whole: %v", long)
	require.Greater(t, len(h.sizes()), 2*(5+10))
}

// TestCannotFit: what no replica can take is refused before it is encoded, or as soon as that is certain.
func TestCannotFit(t *testing.T) {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, and then again.\n", 5_000) // some 135,000 tokens
	many := "[" + strings.Repeat(`{"role":"user","content":"a"},`, 1000) + `{"role":"user","content":"a"}]`
	for name, c := range map[string]struct {
		limits  Limits
		in      stream.Input
		message string
		param   string
		encodes int // at most
	}{
		"by its bytes": {
			Limits{SequenceTokens: new(1000)},
			says(randomLetters(100_000)),
			"this model's maximum context length is 1000 tokens, but the prompt has at least", "messages", 0,
		},
		"by the operator's limit": {
			Limits{PromptTokens: new(1000)},
			stream.Input{Texts: []string{"a", randomLetters(100_000)}},
			"but this server takes at most 1000; shorten the prompt", "prompt", 0,
		},
		"by its messages": {
			Limits{SequenceTokens: new(1000)},
			stream.Input{Chat: &chat.Request{Messages: []byte(many)}},
			"this model's maximum context length is 1000 tokens, but there are 1001 messages; send fewer", "messages", 0,
		},
		"by what is encoded so far": {
			Limits{SequenceTokens: new(60_000)},
			says(prose),
			"this model's maximum context length is 60000 tokens, but the prompt has at least", "messages", 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, h := openHeld(t, 2, func(string) bool { return false })
			o.limits.Store(&c.limits)
			_, err := o.ask("default", c.in).Next(t.Context())
			f := fault.Of(err)
			require.Equal(t, fault.ContextLength, f.Kind, "%v", err)
			require.Contains(t, f.Message, c.message)
			require.Equal(t, c.param, f.Param)
			require.LessOrEqual(t, len(h.sizes()), c.encodes)
			require.Empty(t, o.came())
			o.idle(t)

			prompts, err := o.handle.Prompts(t.Context(), c.in, "default", queue.Default)
			require.NoError(t, err, "what only its IDs are wanted of need not fit")
			require.NotEmpty(t, prompts[0].IDs)
		})
	}
}

// TestWhatFitsIsForTheRouterToSay: a prompt that is known to its end is passed on, however long it is.
func TestWhatFitsIsForTheRouterToSay(t *testing.T) {
	o, h := openHeld(t, 2, func(string) bool { return false })
	o.limits.Store(&Limits{SequenceTokens: new(10), PromptTokens: new(10)})
	in := says("a b c d e f g h i j k l m n o p")
	require.Greater(t, len(h.ids(t, in)), 10)
	_, err := o.ask("default", in).Next(t.Context())
	require.Equal(t, fault.NoReplica, fault.Of(err).Kind)
	require.Len(t, o.came(), 1)
}

// TestARouterThatFailsCostsNoWork: the job of a call that submits again goes on where it was.
func TestARouterThatFailsCostsNoWork(t *testing.T) {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, and then again.\n", 5_000)
	o, h := openHeld(t, 2, func(text string) bool { return len(text) > 1<<10 })
	r := o.ask("default", says(prose))
	<-h.begun
	for range 2 {
		o.live.TellModel("m", stream.RouterRestarted{})
	}
	close(h.release)
	_, err := r.Next(t.Context())
	require.Equal(t, fault.NoReplica, fault.Of(err).Kind)
	o.idle(t)
	require.Len(t, o.came(), 1)
	bytes := 0
	for _, n := range h.sizes() {
		bytes += n
	}
	text, err := h.Render(*says(prose).Chat)
	require.NoError(t, err)
	require.Equal(t, len(text), bytes, "each byte once")
}

// TestTheWaitIsCounted: short inputs and long ones apart, also of those who leave before their turn.
func TestTheWaitIsCounted(t *testing.T) {
	o, h := openHeld(t, 1, func(string) bool { return true })
	short, long := o.ask("a", says("Hello")), o.ask("a", says(strings.Repeat("a ", 100_000)))
	<-h.begun
	<-h.begun
	waits := o.ask("a", says("Hello"))
	require.Eventually(t, func() bool { return o.handle.Stats().Jobs == 3 }, time.Minute, time.Millisecond)
	waits.Cancel()
	require.Eventually(t, func() bool { return o.handle.Stats().Jobs == 2 }, time.Minute, time.Millisecond)
	long.Cancel()
	close(h.release)
	_, err := short.Next(t.Context())
	require.Error(t, err, "no replica serves")
	o.idle(t)
	rec := httptest.NewRecorder()
	o.meter.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	require.Contains(t, rec.Body.String(), `plimsoll_tokenizer_wait_seconds_count{lane="short",model="m"} 2`)
	require.Contains(t, rec.Body.String(), `plimsoll_tokenizer_wait_seconds_count{lane="long",model="m"} 1`)
}
