package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/actors/admin"
)

// explainWait bounds how long an answer of the admin port may take.
const explainWait = time.Minute

// explainBytes bounds what is read of it.
const explainBytes = 64 << 20

func explainCommand(t terminal) *cli.Command {
	return &cli.Command{
		Name:  "explain",
		Usage: "say why requests went where they did, or where one would go now",
		UsageText: "plimsoll explain --admin URL [--last N]\nplimsoll explain --admin URL --request ID\n" +
			"plimsoll explain --admin URL --prompt TEXT [--max-tokens N] [--slo-ttft TIME]\nplimsoll explain --admin URL --body FILE",
		Description: "Asks the admin port of a running plimsoll serve (--admin-listen there). Nothing is sent to an engine.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "admin", Usage: "`URL` of the admin port, e.g. http://127.0.0.1:9090"},
			&cli.StringFlag{Name: "api-key-env", Usage: "show the key in the environment's `VARIABLE`"},
			&cli.StringFlag{Name: "request", Usage: "explain the request whose answer had the X-Request-Id `ID`"},
			&cli.IntFlag{Name: "last", Usage: "explain the last `N` requests", Value: 1},
			&cli.StringFlag{Name: "prompt", Usage: "say where a request with the prompt `TEXT` would go now"},
			&cli.StringFlag{Name: "tokens", Usage: "say where a request with the token IDs `LIST` would go now: numbers parted by commas"},
			&cli.StringFlag{Name: "body", Usage: "say where the chat in `FILE` would go now, a body of /v1/chat/completions; -: the standard input"},
			&cli.StringFlag{Name: "model", Usage: "the served model's `NAME` with --prompt and --tokens (default: the only one)"},
			&cli.IntFlag{Name: "max-tokens", Usage: "let the answer to --prompt or --tokens have at most `N` tokens"},
			&cli.StringFlag{Name: "service-tier", Usage: "ask for --prompt or --tokens as a request of tier `NAME`: default, priority or flex"},
			&cli.DurationFlag{Name: "slo-ttft", Usage: "ask as one whose first token has to come within `TIME` (X-Slo-Ttft-Ms)"},
			&cli.DurationFlag{Name: "slo-tpot", Usage: "ask as one whose later tokens have to come within `TIME` each (X-Slo-Tpot-Ms)"},
			&cli.BoolFlag{Name: "json", Usage: "print what the admin port answers"},
		},
		Action: func(c *cli.Context) error {
			ask, err := questionOf(c, t)
			if err != nil {
				return usageError{err}
			}
			text, err := ask.send()
			if err != nil {
				return err
			}
			if c.Bool("json") {
				_, err = t.out.Write(text)
				return err
			}
			return printDecisions(t.out, text)
		},
	}
}

// adminQuestion is a request to the admin port.
type adminQuestion struct {
	method, url string
	body        []byte
	key         string
	header      http.Header
}

func questionOf(c *cli.Context, t terminal) (adminQuestion, error) {
	q := adminQuestion{method: http.MethodGet, header: http.Header{}}
	base, err := url.Parse(c.String("admin"))
	if c.String("admin") == "" || err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return q, errors.New("plimsoll explain needs --admin URL: the address of --admin-listen of the running serve, e.g. http://127.0.0.1:9090")
	}
	if name := c.String("api-key-env"); name != "" {
		key, ok := t.getenv(name)
		if !ok {
			return q, fmt.Errorf("--api-key-env: the environment has no variable %s", name)
		}
		q.key = key
	}
	given := 0
	for _, name := range []string{"request", "last", "prompt", "tokens", "body"} {
		if c.IsSet(name) {
			given++
		}
	}
	if given > 1 {
		return q, errors.New("choose one of --request, --last, --prompt, --tokens and --body")
	}
	if !c.IsSet("prompt") && !c.IsSet("tokens") && (c.IsSet("model") || c.IsSet("max-tokens") || c.IsSet("service-tier")) {
		return q, errors.New("--model, --max-tokens and --service-tier go with --prompt or --tokens; a --body says them itself")
	}
	if err := q.hurry(c); err != nil {
		return q, err
	}
	at := base.JoinPath("debug", "decisions")
	switch {
	case c.IsSet("request") && c.String("request") == "":
		return q, errors.New("--request is empty: write the X-Request-Id of an answer")
	case c.IsSet("request"):
		at.RawQuery = url.Values{"request": {c.String("request")}}.Encode()
	case c.IsSet("prompt"), c.IsSet("tokens"):
		q.method = http.MethodPost
		if q.body, err = promptBody(c); err != nil {
			return q, err
		}
	case c.IsSet("body"):
		q.method = http.MethodPost
		if q.body, err = fileOrInput(c.String("body"), t.in); err != nil {
			return q, err
		}
	default:
		if c.Int("last") < 1 {
			return q, errors.New("--last must be at least 1")
		}
		at.RawQuery = "limit=" + strconv.Itoa(c.Int("last"))
	}
	q.url = at.String()
	return q, nil
}

// hurry puts the SLOs of a request that is not made into the headers of the question.
func (q adminQuestion) hurry(c *cli.Context) error {
	for flag, header := range map[string]string{"slo-ttft": "X-Slo-Ttft-Ms", "slo-tpot": "X-Slo-Tpot-Ms"} {
		if !c.IsSet(flag) {
			continue
		}
		switch d := c.Duration(flag); {
		case !c.IsSet("prompt") && !c.IsSet("tokens") && !c.IsSet("body"):
			return fmt.Errorf("--%s goes with --prompt, --tokens or --body", flag)
		case d <= 0:
			return fmt.Errorf("--%s must be positive, not %s", flag, d)
		default:
			q.header.Set(header, strconv.FormatFloat(d.Seconds()*1000, 'f', -1, 64))
		}
	}
	return nil
}

// promptBody is the question of --prompt or --tokens.
func promptBody(c *cli.Context) ([]byte, error) {
	body := map[string]any{}
	if c.IsSet("prompt") {
		body["prompt"] = c.String("prompt")
	} else {
		ids := []uint32{}
		for word := range strings.SplitSeq(c.String("tokens"), ",") {
			id, err := strconv.ParseUint(strings.TrimSpace(word), 10, 32)
			if err != nil {
				return nil, fmt.Errorf("--tokens: %q is no token ID: write numbers parted by commas", word)
			}
			ids = append(ids, uint32(id))
		}
		body["tokens"] = ids
	}
	if c.IsSet("model") {
		body["model"] = c.String("model")
	}
	if c.IsSet("service-tier") {
		body["service_tier"] = c.String("service-tier")
	}
	if c.IsSet("max-tokens") {
		body["max_tokens"] = c.Int("max-tokens")
	}
	return json.Marshal(body)
}

func fileOrInput(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--body: %w", err)
	}
	return text, nil
}

// send returns the body of a good answer.
func (q adminQuestion) send() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), explainWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, q.method, q.url, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	req.Header = q.header
	if q.key != "" {
		req.Header.Set("Authorization", "Bearer "+q.key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the admin port does not answer (does serve run with --admin-listen?): %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // only read from
	text, err := io.ReadAll(io.LimitReader(res.Body, explainBytes))
	if err != nil {
		return nil, fmt.Errorf("the admin port's answer broke off: %w", err)
	}
	if res.StatusCode == http.StatusOK {
		return text, nil
	}
	var said struct {
		Error struct{ Message string }
	}
	if err := json.Unmarshal(text, &said); err != nil || said.Error.Message == "" {
		return nil, fmt.Errorf("the admin port answered %s", res.Status)
	}
	return nil, errors.New(said.Error.Message)
}

func printDecisions(w io.Writer, text []byte) error {
	var all admin.Decisions
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("the admin port's answer cannot be read: %w", err)
	}
	if len(all.Decisions) == 0 {
		_, err := fmt.Fprintln(w, "no request was routed yet, or none is remembered (--decisions)")
		return err
	}
	for i := range all.Decisions {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := all.Decisions[i].Write(w); err != nil {
			return err
		}
	}
	return nil
}
