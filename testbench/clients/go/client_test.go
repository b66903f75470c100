package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

const model = "plimsoll-sim"

// server is the root of the server under test.
func server(t *testing.T) string {
	t.Helper()
	url := os.Getenv("PLIMSOLL_URL")
	if url == "" {
		t.Skip("PLIMSOLL_URL is not set: testbench/clients/run.sh starts a server and sets it")
	}
	return url
}

func newClient(t *testing.T) openai.Client {
	t.Helper()
	return openai.NewClient(option.WithBaseURL(server(t)+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

// greedy is a request with one possible answer.
func greedy() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:       model,
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say something about ships.")},
		Temperature: openai.Float(0),
		MaxTokens:   openai.Int(24),
	}
}

func weather() []openai.ChatCompletionToolUnionParam {
	return []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name:        "get_weather",
		Description: openai.String("Get the weather of a city"),
		Parameters: openai.FunctionParameters{
			"type":       "object",
			"properties": map[string]any{"city": map[string]any{"type": "string"}},
			"required":   []string{"city"},
		},
	})}
}

func chat(t *testing.T, c openai.Client, p openai.ChatCompletionNewParams) *openai.ChatCompletion {
	t.Helper()
	answer, err := c.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func collect(t *testing.T, c openai.Client, p openai.ChatCompletionNewParams) []openai.ChatCompletionChunk {
	t.Helper()
	stream := c.Chat.Completions.NewStreaming(t.Context(), p)
	var chunks []openai.ChatCompletionChunk
	for stream.Next() {
		chunks = append(chunks, stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return chunks
}

// text is the text of one choice of a stream.
func text(chunks []openai.ChatCompletionChunk, index int64) string {
	var b strings.Builder
	for _, chunk := range chunks {
		for _, choice := range chunk.Choices {
			if choice.Index == index {
				b.WriteString(choice.Delta.Content)
			}
		}
	}
	return b.String()
}

func TestChat(t *testing.T) {
	var response *http.Response
	c := newClient(t)
	answer, err := c.Chat.Completions.New(t.Context(), greedy(), option.WithResponseInto(&response))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case answer.Model != model, len(answer.Choices) != 1, answer.Choices[0].Message.Content == "":
		t.Errorf("answer: %s", answer.RawJSON())
	case answer.Choices[0].FinishReason != "stop" && answer.Choices[0].FinishReason != "length":
		t.Errorf("finish_reason %q", answer.Choices[0].FinishReason)
	case answer.Usage.PromptTokens < 1, answer.Usage.CompletionTokens > 24,
		answer.Usage.TotalTokens != answer.Usage.PromptTokens+answer.Usage.CompletionTokens:
		t.Errorf("usage: %s", answer.Usage.RawJSON())
	case response.Header.Get("X-Request-Id") == "":
		t.Error("no X-Request-Id")
	}
}

func TestStreamingGivesTheTextOfTheWholeAnswer(t *testing.T) {
	c := newClient(t)
	whole := chat(t, c, greedy())
	chunks := collect(t, c, greedy())
	if len(chunks) < 3 {
		t.Errorf("%d chunks", len(chunks))
	}
	if got, want := text(chunks, 0), whole.Choices[0].Message.Content; got != want {
		t.Errorf("streamed %q, whole %q", got, want)
	}
	accumulator := openai.ChatCompletionAccumulator{}
	for _, chunk := range chunks {
		if !accumulator.AddChunk(chunk) {
			t.Fatalf("the client's accumulator does not take %s", chunk.RawJSON())
		}
	}
	if got := accumulator.Choices[0]; got.FinishReason != whole.Choices[0].FinishReason || got.Message.Role != "assistant" {
		t.Errorf("accumulated: %q by %q", got.FinishReason, got.Message.Role)
	}
}

func TestToolsArePartOfThePromptAndACallComesAsText(t *testing.T) {
	c := newClient(t)
	without := chat(t, c, greedy())
	p := greedy()
	p.Tools = weather()
	with := chat(t, c, p)
	if with.Usage.PromptTokens < without.Usage.PromptTokens+20 {
		t.Errorf("prompt of %d tokens without tools, %d with them", without.Usage.PromptTokens, with.Usage.PromptTokens)
	}
	if m := with.Choices[0].Message; m.Content == "" || len(m.ToolCalls) != 0 {
		t.Errorf("message: %s", m.RawJSON())
	}
}

func TestUsageComesWithTheStreamWhenAskedForAndKnowsTheCache(t *testing.T) {
	c := newClient(t)
	p := greedy()
	p.Messages = []openai.ChatCompletionMessageParamUnion{
		openai.UserMessage("go " + strconv.FormatInt(time.Now().UnixNano(), 10) + strings.Repeat(" a long text of many words", 60)),
	}
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	last := func() openai.CompletionUsage {
		chunks := collect(t, c, p)
		chunk := chunks[len(chunks)-1]
		if len(chunk.Choices) != 0 || chunk.Usage.PromptTokens < 100 {
			t.Fatalf("last chunk: %s", chunk.RawJSON())
		}
		return chunk.Usage
	}
	first, second := last(), last()
	if first.PromptTokens != second.PromptTokens || second.PromptTokensDetails.CachedTokens <= first.PromptTokensDetails.CachedTokens {
		t.Errorf("first %s, second %s", first.RawJSON(), second.RawJSON())
	}
}

func TestNAnswersOneChoiceEach(t *testing.T) {
	c := newClient(t)
	p := greedy()
	p.N, p.Seed, p.Temperature = openai.Int(2), openai.Int(7), openai.Float(1)
	whole := chat(t, c, p)
	chunks := collect(t, c, p)
	if len(whole.Choices) != 2 {
		t.Fatalf("%d choices", len(whole.Choices))
	}
	for _, choice := range whole.Choices {
		if got := text(chunks, choice.Index); got != choice.Message.Content {
			t.Errorf("choice %d: streamed %q, whole %q", choice.Index, got, choice.Message.Content)
		}
	}
}

func TestLogprobsOneEntryAToken(t *testing.T) {
	p := greedy()
	p.MaxTokens, p.Logprobs, p.TopLogprobs = openai.Int(4), openai.Bool(true), openai.Int(2)
	answer := chat(t, newClient(t), p)
	entries := answer.Choices[0].Logprobs.Content
	if int64(len(entries)) != answer.Usage.CompletionTokens {
		t.Fatalf("%d entries for %d tokens", len(entries), answer.Usage.CompletionTokens)
	}
	for _, entry := range entries {
		if entry.Logprob > 0 || len(entry.TopLogprobs) != 2 {
			t.Errorf("entry: %s", entry.RawJSON())
		}
	}
}

func TestCompletionsOfTextAndTokens(t *testing.T) {
	c := newClient(t)
	complete := func(prompt openai.CompletionNewParamsPromptUnion) string {
		answer, err := c.Completions.New(t.Context(), openai.CompletionNewParams{
			Model: model, Prompt: prompt, MaxTokens: openai.Int(8), Temperature: openai.Float(0),
		})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Choices[0].Text
	}
	const prompt = "Once upon a time"
	whole := complete(openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)})
	listed := complete(openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{prompt, "It was"}})
	ids := complete(openai.CompletionNewParamsPromptUnion{OfArrayOfTokens: tokens(t, prompt)})
	if whole == "" || listed != whole || ids != whole {
		t.Errorf("text %q, list %q, tokens %q", whole, listed, ids)
	}
}

// tokens asks the server for a text's IDs.
func tokens(t *testing.T, text string) []int64 {
	t.Helper()
	body, err := json.Marshal(map[string]string{"model": model, "prompt": text})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server(t)+"/tokenize", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct{ Tokens []int64 }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Tokens) == 0 {
		t.Fatalf("/tokenize: %d tokens, %v", len(answer.Tokens), err)
	}
	return answer.Tokens
}

func TestModels(t *testing.T) {
	c := newClient(t)
	page, err := c.Models.List(t.Context())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != model {
		t.Fatalf("models: %+v, %v", page, err)
	}
	if one, err := c.Models.Get(t.Context(), model); err != nil || one.ID != model {
		t.Errorf("model: %+v, %v", one, err)
	}
}

func TestErrorsHaveTheFieldsOfTheClient(t *testing.T) {
	c := newClient(t)
	jsonObject := shared.NewResponseFormatJSONObjectParam()
	for name, test := range map[string]struct {
		change func(*openai.ChatCompletionNewParams)
		status int
		param  string
	}{
		"range":       {func(p *openai.ChatCompletionNewParams) { p.Temperature = openai.Float(9) }, 400, "temperature"},
		"no messages": {func(p *openai.ChatCompletionNewParams) { p.Messages = nil }, 400, "messages"},
		"format":      {func(p *openai.ChatCompletionNewParams) { p.ResponseFormat.OfJSONObject = &jsonObject }, 400, "response_format"},
		"model":       {func(p *openai.ChatCompletionNewParams) { p.Model = "nobody" }, 404, "model"},
	} {
		t.Run(name, func(t *testing.T) {
			p := greedy()
			test.change(&p)
			_, err := c.Chat.Completions.New(t.Context(), p)
			var fault *openai.Error
			if !errors.As(err, &fault) {
				t.Fatalf("error %T: %v", err, err)
			}
			if fault.StatusCode != test.status || fault.Param != test.param || fault.Message == "" || fault.Type == "" {
				t.Errorf("error: %s", fault.RawJSON())
			}
		})
	}
}

func TestAnAbortedStreamLeavesNothingBehind(t *testing.T) {
	c := newClient(t)
	p := greedy()
	p.MaxTokens = openai.Int(20_000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := c.Chat.Completions.NewStreaming(ctx, p)
	for stream.Next() && text([]openai.ChatCompletionChunk{stream.Current()}, 0) == "" {
	}
	cancel()
	for stream.Next() {
	}
	if !errors.Is(stream.Err(), context.Canceled) {
		t.Errorf("the cancelled stream ended with %v", stream.Err())
	}
	var rows []string
	for range 200 {
		if rows = busy(t); len(rows) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("the server still holds something of a request that has gone: %q", rows)
}

// busy returns the lines of /metrics that say that something runs or is booked.
func busy(t *testing.T) []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server(t)+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var rows []string
	found := map[string]bool{}
	names := strings.Fields(os.Getenv("PLIMSOLL_IDLE_METRICS"))
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		for _, name := range names {
			if !strings.HasPrefix(line, name+" ") && !strings.HasPrefix(line, name+"{") {
				continue
			}
			found[name] = true
			if value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err != nil || value != 0 {
				rows = append(rows, line)
			}
		}
	}
	if err := lines.Err(); err != nil || len(found) != len(names) {
		t.Fatalf("of the metrics %q only %v are there, %v", names, found, err)
	}
	return rows
}
