package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"plimsoll/actors/router"
	"plimsoll/scoring/policy"
)

// setting is one thing that can be set: its name, what it means and its place in a Config. Flags, environment variables, the
// configuration file and the printer are all derived from the list of them.
type setting struct {
	name  string // of the flag and of the file's key
	usage string // for the help; the word in back quotes stands for the value
	list  bool   // may have several values
	// decode sets the place from its texts: exactly one unless list is set. What was there before is replaced.
	decode func(texts []string) error
	// encode is the inverse of decode; no texts: unset.
	encode func() []string
}

// env is the name of the setting's environment variable.
func (s setting) env() string {
	return "PLIMSOLL_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// settings lists what c can be told, in the order in which it is printed.
func (c *Config) settings() []setting {
	return []setting{
		text("listen", "serve on `HOST:PORT`", &c.Listen),
		replicas("replica", "serve with the engine at `KIND=URL`; once for each engine, in the place of the four simulated ones. "+
			"Options follow it: ,name=NAME ,capacity-tokens=N ,slots=N ,api-key-env=VARIABLE; for vllm also ,model=NAME ,api=ROUTE ,rank=N", &c.Replicas),
		optionalText("model", "the model's `NAME` for clients (default: what the engines call it)", &c.Model),
		optionalText("tokenizer", "`DIR` with the model's tokenizer.json and chat template (default: the embedded model's)", &c.TokenizerDir),
		choice("policy", "`POLICY` that chooses the replica", &c.Policy, policy.Names()),
		choice("admission", "how much of an answer is reserved, `MODE`", &c.Admission, admissions()),
		optionalText("api-key-file", "`FILE` of the keys that clients must show, a line each, as name: key (default: none needed)", &c.APIKeyFile),
		optionalText("admin-listen", "serve GET /admin/replicas and /metrics for operators on `HOST:PORT` (default: not at all)", &c.AdminListen),
		optionalText("tls-cert", "PEM `FILE` with the certificate and its chain (default: clear text)", &c.TLSCert),
		optionalText("tls-key", "PEM `FILE` with the certificate's key", &c.TLSKey),
		count("max-body-bytes", "`N` bytes a request's body may have", 1, &c.BodyBytes),
		count("max-connections", "`N` connections may be open", 1, &c.Connections),
		duration("body-timeout", "`TIME` that a request's body may take to arrive", &c.BodyTimeout),
		duration("first-token-timeout", "`TIME` that an engine may work on a prompt before the attempt counts as stalled", &c.FirstTokenTimeout),
		duration("token-timeout", "`TIME` that an engine may pause between two tokens before the attempt counts as stalled", &c.TokenTimeout),
		duration("queue-timeout", "`TIME` that a request waits for room before it gets 429", &c.QueueTimeout),
		count("queue-requests", "`N` requests may wait", 1, &c.QueueRequests),
		count("queue-tokens", "`N` prompt tokens may wait", 1, &c.QueueTokens),
		count("default-max-tokens", "`N` tokens are reserved for an answer to which the client sets no limit, in strict admission", 1, &c.DefaultMaxTokens),
		duration("early-headers", "`TIME` after which a stream's headers go out though no token has come", &c.EarlyHeaders),
		duration("client-stall", "`TIME` that a client may take nothing before its request is cancelled", &c.ClientStall),
		count("journal-bytes", "`N` bytes of an answer are kept for a slow client", 1024, &c.JournalBytes),
		duration("drain-timeout", "`TIME` that running requests get after the first SIGTERM or SIGINT", &c.DrainTimeout),
		choice("log-level", "least `LEVEL` that is logged", &c.LogLevel, []string{"debug", "info", "warn", "error"}),
		choice("log-format", "`FORM` of the log's lines", &c.LogFormat, []string{"text", "json"}),
	}
}

// admissions lists the modes of admission.
func admissions() []string {
	words := make([]string, 0, router.NumAdmissions)
	for a := range router.NumAdmissions {
		words = append(words, a.String())
	}
	return words
}

// one wraps a decoder of a single text.
func one(decode func(text string) error) func([]string) error {
	return func(texts []string) error {
		if len(texts) != 1 {
			return fmt.Errorf("takes one value, not %d", len(texts))
		}
		return decode(texts[0])
	}
}

func text(name, usage string, p *string) setting {
	return setting{
		name: name, usage: usage,
		decode: one(func(text string) error {
			if text == "" {
				return errors.New("is empty: write a value or leave it out")
			}
			*p = text
			return nil
		}),
		encode: func() []string { return []string{*p} },
	}
}

// optional turns a setting of a value into one of a pointer that is nil while unset.
func optional[T any](p **T, of func(*T) setting) setting {
	var value T
	s := of(&value)
	decode, encode := s.decode, s.encode
	s.decode = func(texts []string) error {
		if err := decode(texts); err != nil {
			return err
		}
		set := value
		*p = &set
		return nil
	}
	s.encode = func() []string {
		if *p == nil {
			return nil
		}
		value = **p
		return encode()
	}
	return s
}

func optionalText(name, usage string, p **string) setting {
	return optional(p, func(v *string) setting { return text(name, usage, v) })
}

func choice(name, usage string, p *string, allowed []string) setting {
	return setting{
		name: name, usage: usage + ": " + strings.Join(allowed, ", "),
		decode: one(func(text string) error {
			for _, a := range allowed {
				if text == a {
					*p = text
					return nil
				}
			}
			return fmt.Errorf("cannot be %q: write one of %s", text, strings.Join(allowed, ", "))
		}),
		encode: func() []string { return []string{*p} },
	}
}

func duration(name, usage string, p *time.Duration) setting {
	return setting{
		name: name, usage: usage,
		decode: one(func(text string) error {
			d, err := time.ParseDuration(text)
			switch {
			case err != nil:
				return fmt.Errorf("%q is no duration: write a number and a unit, e.g. 30s, 500ms or 2m", text)
			case d < 0:
				return fmt.Errorf("cannot be negative: %s", text)
			}
			*p = d
			return nil
		}),
		encode: func() []string { return []string{p.String()} },
	}
}

func count(name, usage string, least int, p *int) setting {
	return setting{
		name: name, usage: usage,
		decode: one(func(text string) error {
			n, err := strconv.Atoi(text)
			switch {
			case err != nil:
				return fmt.Errorf("%q is no whole number", text)
			case n < least:
				return fmt.Errorf("must be at least %d, not %d", least, n)
			}
			*p = n
			return nil
		}),
		encode: func() []string { return []string{strconv.Itoa(*p)} },
	}
}

func replicas(name, usage string, p *[]ReplicaSpec) setting {
	return setting{
		name: name, usage: usage, list: true,
		decode: func(texts []string) error {
			specs := make([]ReplicaSpec, 0, len(texts))
			for i, text := range texts {
				spec, err := ParseReplica(text, i+1)
				if err != nil {
					return err
				}
				specs = append(specs, spec)
			}
			*p = specs
			return nil
		},
		encode: func() []string {
			texts := make([]string, 0, len(*p))
			for _, spec := range *p {
				texts = append(texts, spec.String())
			}
			return texts
		},
	}
}
