package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/shared"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/hf"
	"plimsoll/tokenizer/simmodel"
)

func fixedClock() time.Time { return time.Date(2025, 7, 4, 9, 5, 3, 0, time.UTC) }

// recording is what a real engine answered to /tokenize or /render.
type recording struct {
	Request struct {
		Body json.RawMessage `json:"body"`
	} `json:"request"`
	Response struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	} `json:"response"`
}

// wanted are the prompt's IDs in an answer: "tokens" of /tokenize, "token_ids" of /render. Lists of answers and answers
// without IDs give nil.
func wanted(t *testing.T, body json.RawMessage) []uint32 {
	t.Helper()
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		return nil
	}
	var ids struct {
		Tokens   []uint32 `json:"tokens"`
		TokenIDs []uint32 `json:"token_ids"`
	}
	require.NoError(t, json.Unmarshal(body, &ids))
	if ids.Tokens != nil {
		return ids.Tokens
	}
	return ids.TokenIDs
}

// TestIDsAreTheEngines holds for every recorded conversation and text: what we make of a request is what the engine made.
func TestIDsAreTheEngines(t *testing.T) {
	dir := shared.Path(t, "testdata", "engines", "tiny-tokenizer")
	m, err := tokenizer.Load(os.DirFS(dir), dir, fixedClock)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	compared := 0
	for _, folder := range []string{"tokenize", "render"} {
		for _, name := range shared.Glob(t, "testdata", "engines", "vllm", folder, "*.json") {
			raw, err := os.ReadFile(name)
			require.NoError(t, err)
			var r recording
			require.NoError(t, json.Unmarshal(raw, &r), name)
			if r.Response.Status != 200 {
				continue
			}
			want := wanted(t, r.Response.Body)
			if want == nil {
				continue
			}
			t.Run(folder+"/"+filepath.Base(name), func(t *testing.T) {
				ids, ok := idsOf(t, m, r.Request.Body)
				if !ok {
					t.Skip("neither a conversation nor a text")
				}
				require.Equal(t, want, ids)
				compared++
			})
		}
	}
	require.Positive(t, compared)
}

func idsOf(t *testing.T, m *tokenizer.Model, body []byte) ([]uint32, bool) {
	t.Helper()
	var b struct {
		Prompt               *string         `json:"prompt"`
		Messages             json.RawMessage `json:"messages"`
		Tools                json.RawMessage `json:"tools"`
		AddGenerationPrompt  *bool           `json:"add_generation_prompt"`
		ContinueFinalMessage *bool           `json:"continue_final_message"`
	}
	require.NoError(t, json.Unmarshal(body, &b))
	switch {
	case b.Messages != nil && !bytes.Contains(body, []byte(`"input_schema"`)):
		_, ids, err := m.Chat(chat.Request{
			Messages: b.Messages, Tools: b.Tools,
			AddGenerationPrompt: b.AddGenerationPrompt, ContinueFinalMessage: b.ContinueFinalMessage,
		})
		require.NoError(t, err)
		return ids, true
	case b.Prompt != nil:
		ids, err := m.Encode(*b.Prompt, true)
		require.NoError(t, err)
		if ids == nil {
			ids = []uint32{}
		}
		return ids, true
	}
	return nil, false
}

func TestEmbeddedModel(t *testing.T) {
	m, err := tokenizer.Load(simmodel.FS(), "embedded", fixedClock)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	text, ids, err := m.Chat(chat.Request{Messages: []byte(`[{"role":"user","content":"hi"}]`)})
	require.NoError(t, err)
	require.Contains(t, text, "hi")
	back, err := m.Decode(ids, false)
	require.NoError(t, err)
	require.Equal(t, text, back)
	require.NotEmpty(t, m.Ends())
	for _, id := range m.Ends() {
		require.True(t, m.IsSpecial(id))
	}
	_, _, err = m.Chat(chat.Request{Messages: []byte(`[{"role":"user","content":"a\u0000b"}]`)})
	var bad *hf.BadInput
	require.ErrorAs(t, err, &bad, "NUL would be cut silently by the library")
}

// TestBadFoldersAreNamed: a model's folder that can't be used is refused at load, with the file and the place.
func TestBadFoldersAreNamed(t *testing.T) {
	good := func(name string) []byte {
		f, err := simmodel.FS().Open(name)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		var b bytes.Buffer
		_, err = b.ReadFrom(f)
		require.NoError(t, err)
		return b.Bytes()
	}
	tok := good("tokenizer.json")
	for name, tc := range map[string]struct {
		files fstest.MapFS
		says  []string
	}{
		"no tokenizer":        {fstest.MapFS{}, []string{"some/dir", "tokenizer.json"}},
		"tokenizer cut short": {fstest.MapFS{"tokenizer.json": {Data: tok[:len(tok)/2]}}, []string{"some/dir/tokenizer.json"}},
		"tokenizer of another kind": {
			fstest.MapFS{"tokenizer.json": {Data: []byte(`{"model": 3}`)}}, []string{"some/dir/tokenizer.json", "model"},
		},
		"config is no JSON": {
			fstest.MapFS{"tokenizer.json": {Data: tok}, "tokenizer_config.json": {Data: []byte("{\n\"a\": ,}")}},
			[]string{"some/dir", "tokenizer_config.json"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tokenizer.Load(tc.files, "some/dir", fixedClock)
			require.Error(t, err)
			for _, word := range tc.says {
				require.True(t, strings.Contains(err.Error(), word), "%q does not say %q", err, word)
			}
		})
	}
}

// TestModelWithABrokenTemplateCompletesText: its chats are for engines that render by themselves.
func TestModelWithABrokenTemplateCompletesText(t *testing.T) {
	tok, err := fs.ReadFile(simmodel.FS(), "tokenizer.json")
	require.NoError(t, err)
	files := fstest.MapFS{"tokenizer.json": {Data: tok}, "chat_template.jinja": {Data: []byte("a\n{% if x %}")}}
	m, err := tokenizer.Load(files, "some/dir", fixedClock)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	for _, word := range []string{"some/dir", "chat_template.jinja", "2"} {
		require.ErrorContains(t, m.TemplateError(), word)
	}
	_, _, err = m.Chat(chat.Request{Messages: []byte(`[{"role":"user","content":"x"}]`)})
	require.ErrorIs(t, err, m.TemplateError())
	why, ok := chat.CannotRender(err)
	require.True(t, ok)
	require.Equal(t, chat.TemplateFault, why)
	ids, err := m.Encode("text", true)
	require.NoError(t, err)
	require.NotEmpty(t, ids)
}

func TestModelWithoutTemplateCompletesText(t *testing.T) {
	tok, err := simmodel.FS().Open("tokenizer.json")
	require.NoError(t, err)
	var b bytes.Buffer
	_, err = b.ReadFrom(tok)
	require.NoError(t, err)
	require.NoError(t, tok.Close())
	m, err := tokenizer.Load(fstest.MapFS{"tokenizer.json": {Data: b.Bytes()}}, "plain", fixedClock)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	_, _, err = m.Chat(chat.Request{Messages: []byte(`[]`)})
	require.ErrorIs(t, err, tokenizer.ErrNoTemplate)
	ids, err := m.Encode("text", true)
	require.NoError(t, err)
	require.NotEmpty(t, ids)
}
