package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"plimsoll/engine"
)

// asked begins every error about an answer to a question of a probe: what was asked, and what came.
func asked(path string, status int) string { return fmt.Sprintf("asked GET /%s, got %d", path, status) }

// hint is what an operator is asked whose server is perhaps none of the kind that he says.
func (c *Client) hint() string {
	question := "is this the right kind of server?"
	if c.cfg.Kind != "" {
		question = "is this a " + c.cfg.Kind + " server?"
	}
	if len(c.cfg.Kinds) > 0 {
		question += " (kinds: " + strings.Join(c.cfg.Kinds, ", ") + ")"
	}
	return question
}

// WrongKind is the failure of a server that answers as no server of its kind does.
func (c *Client) WrongKind(path string, status int, what string) *engine.Failure {
	if what != "" {
		what = " " + what
	}
	return &engine.Failure{
		Kind: engine.Operator, FromEngine: true, Status: status,
		Err: errors.New(asked(path, status) + what + ": " + c.hint()),
	}
}

// refused says in the failure of a question what was asked, and what to do about it.
func (c *Client) refused(path string, f *engine.Failure) *engine.Failure {
	status := f.Status
	words := f.Message
	if f.Err != nil {
		words = strings.TrimPrefix(f.Err.Error(), fmt.Sprintf("status %d: ", status))
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		words += ": does it want an API key? Put it in an environment variable and name that with api-key-env=VARIABLE"
	case status >= 300 && status < 400:
		words = "which sends us elsewhere: " + c.hint()
	case f.Kind == engine.Operator, f.Kind == engine.Client: // no such route, or none that takes the question
		words = c.hint()
	}
	said := *f
	said.Message, said.Err = "", errors.New(asked(path, status)+": "+words)
	return &said
}

// ReadJSON reads the answer of a question. One that is of another form is told by path, status and kind of server.
func (c *Client) ReadJSON(path string, header http.Header, body []byte, into any) error {
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	return c.Unreadable(path, header, err)
}

// Unreadable is the failure of an answer with status 200 that cannot be read as what was asked for.
func (c *Client) Unreadable(path string, header http.Header, err error) *engine.Failure {
	media := header.Get("Content-Type")
	if media == "" {
		media = "no content type"
	}
	if len(media) > mediaMax {
		media = media[:mediaMax]
	}
	return Broken("%s with %q, which cannot be read (%w): %s", asked(path, http.StatusOK), media, err, c.hint())
}

// mediaMax bounds what a content type can put into our errors.
const mediaMax = 64
