package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"plimsoll/actors"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
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

	allowed []string // the values there are; nil: any that decode takes

	lines bool // of a list: the variable has a value a line, not one a word
	// In the file, values that are more than texts; nil: they are none. With an error decodeNodes returns the line at fault.
	decodeNodes func(items []*yaml.Node) (line int, err error)
	encodeNodes func() []*yaml.Node
}

// env is the name of the setting's environment variable.
func (s setting) env() string { return envOf(s.name) }

// texts are all that the setting says, for comparison: what encode gives, and what only the file can say.
func (s setting) texts() []string {
	texts := s.encode()
	if s.encodeNodes == nil {
		return texts
	}
	for _, n := range s.encodeNodes() {
		if raw, err := yaml.Marshal(n); err == nil {
			texts = append(texts, string(raw))
		}
	}
	return texts
}

// settings lists what c can be told, in the order in which it is printed.
func (c *Config) settings() []setting {
	return []setting{
		text("listen", "serve on `HOST:PORT`", &c.Listen),
		specs("replica", "serve with the engine at `KIND=URL`; once for each engine, in the place of the four simulated ones. "+
			"Options follow it: ,name=NAME ,capacity-tokens=N ,slots=N ,model=NAME ,api-key-env=VARIABLE; for vllm also ,api=ROUTE ,rank=N "+
			",events=WHERE ,events-bind=ADDRESS ,replay=ADDRESS", ParseReplica, &c.Replicas),
		launches("launch", "start the engine `KIND=COMMAND` on a port of its own, {port} in the command, and keep it running; once for each command. "+
			"Options stand before its =: ,name=NAME ,count=N ,devices=A+B ,folder=DIR ,log-file=FILE ,start-timeout=TIME and those of --replica", &c.Launches),
		count("launch-count", "start `N` engines for each --launch that does not say how many", 1, &c.LaunchCount),
		period("launch-start-timeout", "start an engine anew that does not serve within `TIME`", &c.LaunchStartTimeout),
		period("launch-grace", "give an engine that is asked to end `TIME` before it is made to, with all that it started", &c.LaunchGrace),
		optionalText("model", "serve the model as `NAME` (default: what the engines call it)", &c.Model),
		optionalText("tokenizer", "read the model's tokenizer.json and chat template from `DIR` (default: the embedded model's)", &c.TokenizerDir),
		choice("render", "turn chats into prompts here or, for models whose engine renders by code, leave all of them to the engine, by `WHO`", &c.Render, renderings()),
		choice("policy", "choose replicas by `POLICY`", &c.Policy, policy.Names()),
		specs("shadow-policy", "try `POLICY` on the traffic without acting on it, and count where it would have decided otherwise; once for each. "+
			"One of those of --policy", parseShadow, &c.ShadowPolicies),
		count("decisions", "remember how the last `N` requests were routed, for plimsoll explain and /debug/decisions; 0: none", 0, &c.Decisions),
		count("decisions-bytes", "remember as many of them as take `N` bytes at most", 0, &c.DecisionsBytes),
		weight("weight-reuse", "lean to cache reuse with `WEIGHT` above 1, to even load below it, where the policy weighs them", &c.ReuseWeight),
		weight("weight-ttft", "lean to a short time to the first token with `WEIGHT` above 1, to the pace of all answers below it, where the policy "+
			"weighs them", &c.TTFTWeight),
		choice("admission", "reserve what an answer is expected to take or, strictly, the most it may take, by `MODE`", &c.Admission, admissions()),
		optionalText("api-key-file", "serve only clients that show a key of `FILE`, which has a line for each, as name: key; a name may have several (default: no key is needed)", &c.APIKeyFile),
		optionalText("admin-listen", "serve /admin/replicas, /debug/decisions and /metrics for operators on `HOST:PORT` (default: not at all)", &c.AdminListen),
		optionalText("admin-key-file", "`FILE` of the keys that operators must show on the admin port, as --api-key-file (default: that one's keys, "+
			"and replicas are added and removed on loopback alone)", &c.AdminKeyFile),
		optionalText("tls-cert", "serve TLS, also for operators, with the certificate and its chain in the PEM `FILE` (default: clear text)", &c.TLSCert),
		optionalText("tls-key", "read the certificate's key from the PEM `FILE`", &c.TLSKey),
		specs("cors-origin", "let pages of `ORIGIN` (https://HOST, or * for all) call from a browser; once for each (default: none)", parseOrigin, &c.Origins),
		count("max-body-bytes", "refuse request bodies of more than `N` bytes", 1, &c.BodyBytes),
		optional(&c.PromptTokens, func(v *int) setting {
			return count("max-prompt-tokens", "refuse prompts of more than `N` tokens (default: what the replicas hold)", 1, v)
		}),
		optional(&c.Connections, func(v *int) setting {
			return count("max-connections", "hold at most `N` connections open (default: 16384, or as many as the limit of open files leaves room for)", 1, v)
		}),
		period("body-timeout", "give a request's body `TIME` to arrive", &c.BodyTimeout),
		period("first-token-timeout", "count an attempt as stalled whose engine gives no first token for `TIME`, or for 8 times what its replica needs as a rule while that serves others", &c.FirstTokenTimeout),
		period("token-timeout", "count an attempt as stalled whose engine pauses for `TIME` between two tokens, or for 100 steps of its replica while that serves others and the answer can go on elsewhere", &c.TokenTimeout),
		multiple("hedge-after", "begin a second attempt on another replica, and go on with the quicker, once the first token has taken `F` times as long as predicted; 0: never", &c.HedgeAfter),
		duration("hang-least", "suspect a replica none of whose streams goes on for 8 of its steps or twice the prefill that it is at, but not within `TIME`; suspected it gets nothing new", &c.HangLeast),
		duration("hang-blind", "suspect a replica of which too little was seen to know its pace if none of its streams goes on for `TIME`, and wait as long for what it was never seen at: logprobs, a schema, an adapter, a prompt of twice the length; "+
			"where nobody else would be quicker for --first-token-timeout", &c.HangBlind),
		optional(&c.HangRestart, func(v *time.Duration) setting {
			return period("hang-restart", "start an engine of --launch anew that has given nothing for `TIME`, neither to its streams nor to the canary sent after them (default: --first-token-timeout)", v)
		}),
		period("probe-timeout", "wait `TIME` for an engine to say how it is: half of it for its metrics, without which its load counts as unknown", &c.ProbeTimeout),
		period("probe-patience", "count an engine that has nothing to do as down if it has answered no probe in time for `TIME`", &c.ProbePatience),
		period("shed-most", "give a replica that sheds a request nothing for as long as its Retry-After says, `TIME` at most", &c.ShedMost),
		duration("queue-timeout", "let a request wait `TIME` for room before it gets 429", &c.QueueTimeout),
		duration("resume-wait", "let an answer whose engine failed wait `TIME` for a replica that goes on with it", &c.ResumeWait),
		specs("tenant", "give the tenant `NAME`, an API key's name, what its options say; once for each. "+
			"Options follow it: ,weight=SHARE ,requests-per-minute=N ,tokens-per-minute=N", ParseTenant, &c.Tenants),
		specs("slo", "refuse at once what of the `CLASS` (service_tier: priority, default, flex) would not be answered within what its options say; once for each. "+
			"Options follow it: ,ttft=TIME to the first token ,tpot=TIME from token to token", ParseSLO, &c.SLOs),
		period("queue-promote-after", "count a request that has waited for `TIME` to the class (service_tier) above its own, and again after as long", &c.PromoteAfter),
		count("queue-requests", "let at most `N` requests wait for room", 1, &c.QueueRequests),
		count("queue-tokens", "let at most `N` prompt tokens wait for room", 1, &c.QueueTokens),
		count("default-max-tokens", "reserve `N` tokens, in strict admission, for an answer that its client sets no limit", 1, &c.DefaultMaxTokens),
		duration("kv-events-silence", "stop relying on a replica's cache events, and remember what was sent there instead, if none come for `TIME` after work that changed its cache", &c.EventsSilence),
		period("speculation-time", "count a prompt as cached where it was sent for `TIME`, unless the engine says so itself", &c.SpeculationTime),
		fraction("host-cache-credit", "count a block cached in a replica's host memory as `PART` of its prefill saved, 0 to 1", &c.HostCredit),
		fraction("disk-cache-credit", "count a block cached on disk or in a remote store as `PART` of its prefill saved, 0 to 1", &c.DiskCredit),
		period("early-headers", "send a stream's headers after `TIME` though no token has come", &c.EarlyHeaders),
		period("client-stall", "cancel a request whose client takes nothing for `TIME`", &c.ClientStall),
		count("journal-bytes", "keep at most `N` bytes of an answer for a slow client", 1024, &c.JournalBytes),
		duration("shutdown-delay", "serve on for `TIME` after the first SIGTERM or SIGINT, with /ready 503, so that load balancers see it before requests are refused", &c.ShutdownDelay),
		duration("drain-timeout", "give running requests `TIME` to end after the first SIGTERM or SIGINT (and --shutdown-delay), or when their replica is drained before they are moved to another", &c.DrainTimeout),
		optionalText("record", "write the traffic to `FILE`, a trace for plimsoll replay: when requests came, what their prompts share, how long answers were; no text "+
			"(default: not at all)", &c.Record),
		count("record-bytes", "put the file of --record aside as FILE.1, in place of the one before, when it has `N` bytes", 1, &c.RecordBytes),
		choice("log-level", "log what is of this `LEVEL` or above", &c.LogLevel, []string{"debug", "info", "warn", "error"}),
		choice("log-format", "write the log's lines in this `FORM`", &c.LogFormat, []string{"text", "json"}),
	}
}

// renderings lists who may render chats.
func renderings() []string {
	words := make([]string, 0, actors.NumRenderings)
	for r := range actors.NumRenderings {
		words = append(words, r.String())
	}
	return words
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
		name: name, usage: usage + ": " + strings.Join(allowed, ", "), allowed: allowed,
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

// period is a setting of a time that something has to take.
func period(name, usage string, p *time.Duration) setting {
	s := duration(name, usage, p)
	decode := s.decode
	s.decode = func(texts []string) error {
		before := *p
		err := decode(texts)
		if err == nil && *p == 0 {
			*p, err = before, errors.New("must be above 0: write a number and a unit, e.g. 30s, 500ms or 2m")
		}
		return err
	}
	return s
}

// fraction is a setting of a number from 0 to 1.
func fraction(name, usage string, p *float64) setting {
	return setting{
		name: name, usage: usage,
		decode: one(func(text string) error {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || !(v >= 0 && v <= 1) {
				return fmt.Errorf("cannot be %q: write a number from 0 to 1, e.g. 0.8", text)
			}
			*p = v
			return nil
		}),
		encode: func() []string { return []string{strconv.FormatFloat(*p, 'g', -1, 64)} },
	}
}

// weight is a setting of a positive number that leans a sum.
func weight(name, usage string, p *float64) setting {
	return setting{
		name: name, usage: usage,
		decode: one(func(text string) error {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || !(v > 0 && v <= weightMax) {
				return fmt.Errorf("cannot be %q: write a number above 0 and up to %d, e.g. 1.5", text, weightMax)
			}
			*p = v
			return nil
		}),
		encode: func() []string { return []string{strconv.FormatFloat(*p, 'g', -1, 64)} },
	}
}

// weightMax is far beyond where anything else counts.
const weightMax = 1000

// multiple is a setting of a number that is 0, for never, or says how many times as long something may take.
func multiple(name, usage string, p *float64) setting {
	return setting{
		name: name, usage: usage,
		decode: one(func(text string) error {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || v != 0 && !(v >= 1 && v <= stream.HedgeAfterMax) {
				return fmt.Errorf("cannot be %q: write 0 for never, or a number from 1 to %d, e.g. 2.5", text, stream.HedgeAfterMax)
			}
			*p = v
			return nil
		}),
		encode: func() []string { return []string{strconv.FormatFloat(*p, 'g', -1, 64)} },
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

// specs is a setting of a list whose items stand for themselves: parse reads one, numbered from 1, and its String is the inverse.
func specs[S fmt.Stringer](name, usage string, parse func(text string, number int) (S, error), p *[]S) setting {
	return setting{
		name: name, usage: usage, list: true,
		decode: func(texts []string) error {
			list := make([]S, 0, len(texts))
			for i, text := range texts {
				spec, err := parse(text, i+1)
				if err != nil {
					return err
				}
				list = append(list, spec)
			}
			*p = list
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
