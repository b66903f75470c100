package chaos

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"plimsoll/engine/sim"
	"plimsoll/testbench/fakeengine"
)

// Plan is a run: a fleet, what is asked of it, what goes wrong, and what must hold.
type Plan struct {
	Name     string        `yaml:"name"`
	About    string        `yaml:"about"`
	Seed     uint64        `yaml:"seed"`
	Warm     time.Duration `yaml:"warm"`     // traffic before the first fault
	Duration time.Duration `yaml:"duration"` // of the faults; what is under way then comes to its end
	Settle   time.Duration `yaml:"settle"`   // within which everything must have ended, be zero and serve again
	Fleet    Fleet         `yaml:"fleet"`
	Traffic  Traffic       `yaml:"traffic"`
	Faults   Faults        `yaml:"faults"`
	Cancel   *Cancel       `yaml:"cancel"` // nil: no client leaves
	Bounds   Bounds        `yaml:"bounds"`
}

// Fleet is what is started.
type Fleet struct {
	Engines  int            `yaml:"engines"` // simulated ones
	Profile  string         `yaml:"profile"` // of their model and GPU
	Speed    float64        `yaml:"speed"`
	Overhead *time.Duration `yaml:"overhead"` // of a pass; nil: the profile's
	Sim      []string       `yaml:"sim"`      // further flags of plimsoll sim
	Serve    []string       `yaml:"serve"`    // further flags of plimsoll serve
	Slots    int            `yaml:"slots"`    // seats of each engine
	Real     []Real         `yaml:"real"`     // real engines, in the place of simulated ones
	// Tokenizer is the folder with the real engines' tokenizer.
	Tokenizer string `yaml:"tokenizer"`
}

// Real is an engine that is not simulated: one that runs already, or one that is started by its command.
type Real struct {
	Kind    string   `yaml:"kind"` // the word for --replica
	URL     string   `yaml:"url"`
	Options []string `yaml:"options"` // further ones of --replica
	// PID is the process to stop of an engine that runs already; nil: it is not stopped. It is not killed: nobody would
	// start it again.
	PID *int `yaml:"pid"`
	// Command is the program, with its arguments, that serves at the URL and answers /health with 200 when it is ready. It
	// is one process for as long as it runs, which is stopped, killed and started again. Empty: the engine runs already.
	Command []string `yaml:"command"`
}

// Traffic is what clients ask for. A client sends its next request when it has its answer.
type Traffic struct {
	Streams      int           `yaml:"streams"` // open at any time
	PromptTokens [2]int        `yaml:"prompt-tokens"`
	OutputTokens [2]int        `yaml:"output-tokens"`
	Mix          map[Class]int `yaml:"mix"` // weights
}

// Faults says when what goes wrong.
type Faults struct {
	Every   time.Duration `yaml:"every"`   // between two that are drawn; 0: none are
	Mix     []Fault       `yaml:"mix"`     // from which they are drawn by weight
	At      []Fault       `yaml:"at"`      // scripted ones
	Healthy int           `yaml:"healthy"` // as many engines are left alone at any time
}

// Fault is one fault, or the range that one is drawn from.
type Fault struct {
	Kind    Kind                 `yaml:"kind"`
	Weight  int                  `yaml:"weight"` // of a mix
	At      time.Duration        `yaml:"at"`     // of a script
	Engine  *int                 `yaml:"engine"` // nil: drawn
	For     Span                 `yaml:"for"`
	Back    Span                 `yaml:"back"`
	Tokens  int                  `yaml:"tokens"`
	Factor  float64              `yaml:"factor"`
	Status  int                  `yaml:"status"`
	Latency time.Duration        `yaml:"latency"`
	Jitter  time.Duration        `yaml:"jitter"`
	Jump    time.Duration        `yaml:"jump"`
	Times   int                  `yaml:"times"`
	Events  *fakeengine.KVFaults `yaml:"events"`
}

// Span is a range of times, written as one time or as two in a list.
type Span [2]time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Span) UnmarshalYAML(n *yaml.Node) error {
	var one time.Duration
	if n.Kind == yaml.ScalarNode {
		if err := n.Decode(&one); err != nil {
			return err
		}
		*s = Span{one, one}
		return nil
	}
	var two [2]time.Duration
	if err := n.Decode(&two); err != nil {
		return err
	}
	if *s = two; two[0] < 0 || two[0] > two[1] {
		return fmt.Errorf("line %d: %s to %s is no span of time", n.Line, two[0], two[1])
	}
	return nil
}

// Bounds are what a run must reach, and what it must not exceed. What is absent is not judged.
type Bounds struct {
	Hit      *int           `yaml:"hit"`       // answers that were being given when a fault struck their engine
	HitTwice *int           `yaml:"hit-twice"` // likewise, twice
	KillGap  *time.Duration `yaml:"kill-gap"`  // p99 of the gap that spans a kill
}

//go:embed plans/*.yaml
var builtin embed.FS

// Builtin lists the plans that the binary holds.
func Builtin() ([]Plan, error) {
	files, err := builtin.ReadDir("plans")
	if err != nil {
		return nil, err
	}
	plans := make([]Plan, 0, len(files))
	for _, f := range files {
		text, err := builtin.ReadFile(path.Join("plans", f.Name()))
		if err != nil {
			return nil, err
		}
		p, err := ParsePlan(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		if p.Name+".yaml" != f.Name() {
			return nil, fmt.Errorf("%s: its name is %s", f.Name(), p.Name)
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// Named returns a plan that the binary holds.
func Named(name string) (Plan, error) {
	plans, err := Builtin()
	if err != nil {
		return Plan{}, err
	}
	names := make([]string, 0, len(plans))
	for _, p := range plans {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Plan{}, fmt.Errorf("there is no plan %q: write a file's name, or one of %s", name, strings.Join(names, ", "))
}

// ParsePlan reads a plan. Unknown members are mistakes; errors name the line.
func ParsePlan(text []byte) (Plan, error) {
	p := Plan{
		Seed: 1, Warm: 5 * time.Second, Settle: 30 * time.Second,
		Fleet:   Fleet{Engines: 4, Slots: 64, Profile: sim.ProfileH100x8B, Speed: 1},
		Traffic: Traffic{Streams: 20, PromptTokens: [2]int{256, 2048}, OutputTokens: [2]int{400, 1200}, Mix: map[Class]int{Greedy: 1}},
		Faults:  Faults{Healthy: 1},
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	switch err := dec.Decode(&p); {
	case errors.Is(err, io.EOF):
		return Plan{}, errors.New("plan: it says nothing: write at least a name and a duration")
	case err != nil:
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Plan{}, errors.New("plan: a file holds one plan")
	}
	return p, p.Validate()
}

// Size is the number of engines.
func (f Fleet) Size() int {
	if len(f.Real) > 0 {
		return len(f.Real)
	}
	return f.Engines
}

// config is what the simulated engines compute with.
func (f Fleet) config() (sim.Config, error) {
	cfg, err := sim.Profile(f.Profile)
	if err != nil {
		return cfg, err
	}
	if f.Overhead != nil {
		cfg.Timing.Overhead = *f.Overhead
	}
	if !(f.Speed > 0) {
		return cfg, fmt.Errorf("the speed %g is not above 0", f.Speed)
	}
	return cfg, cfg.Validate()
}

// Validate says what makes no sense.
func (p Plan) Validate() error {
	t := p.Traffic
	switch {
	case p.Name == "":
		return errors.New("plan: it needs a name")
	case p.Fleet.Size() < 1 || p.Fleet.Slots < 1:
		return errors.New("plan: it needs an engine with a slot at least")
	case (len(p.Fleet.Real) > 0) != (p.Fleet.Tokenizer != ""):
		return errors.New("plan: real engines, and they alone, need their tokenizer's folder")
	case p.Duration <= 0 && p.Cancel == nil, p.Warm < 0, p.Settle <= 0:
		return errors.New("plan: duration and settle must be above 0, warm not below")
	case t.Streams < 1 && p.Cancel == nil, t.PromptTokens[0] < tagAt+tagTokens || t.PromptTokens[1] < t.PromptTokens[0],
		t.OutputTokens[0] < 1 || t.OutputTokens[1] < t.OutputTokens[0]:
		return fmt.Errorf("plan: traffic needs a stream, prompts of at least %d tokens and outputs of at least 1", tagAt+tagTokens)
	case p.Faults.Healthy < 1 || p.Faults.Healthy >= p.Fleet.Size() && p.faulty():
		return fmt.Errorf("plan: of %d engines at least 1 must be left healthy and 1 must not", p.Fleet.Size())
	case p.Faults.Every < 0 || p.Faults.Every > 0 && weights(p.Faults.Mix) < 1:
		return errors.New("plan: faults that are drawn need a mix with weights")
	}
	if _, err := p.Fleet.config(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	sum := 0
	for class, w := range t.Mix {
		if class >= NumClasses || w < 0 {
			return errors.New("plan: a weight of the traffic's mix is below 0")
		}
		sum += w
	}
	if sum < 1 {
		return errors.New("plan: traffic needs a mix with a weight above 0")
	}
	for _, f := range append(p.Faults.Mix, p.Faults.At...) {
		if err := p.validate(f); err != nil {
			return fmt.Errorf("plan: %s: %w", f.Kind, err)
		}
	}
	if p.Cancel != nil {
		return p.Cancel.validate()
	}
	return nil
}

func (p Plan) faulty() bool { return p.Faults.Every > 0 || len(p.Faults.At) > 0 }

func weights(mix []Fault) int {
	sum := 0
	for _, f := range mix {
		sum += f.Weight
	}
	return sum
}

func (p Plan) validate(f Fault) error {
	isReal := len(p.Fleet.Real) > 0
	switch {
	case f.Engine != nil && (*f.Engine < 0 || *f.Engine >= p.Fleet.Size()):
		return fmt.Errorf("there is no engine %d", *f.Engine)
	case isReal && f.Kind.injected():
		return errors.New("only simulated engines can be told so")
	case f.Kind.restarts() && p.lacks(f, func(r Real) bool { return len(r.Command) > 0 }):
		return errors.New("an engine to start again needs its command")
	case f.Kind == Stop && p.lacks(f, func(r Real) bool { return len(r.Command) > 0 || r.PID != nil }):
		return errors.New("an engine to stop needs its pid or its command")
	case f.Kind == HangAfter && f.Tokens < 1, f.Kind == Flap && f.Times < 1:
		return errors.New("it needs a number of tokens or times above 0")
	case f.Kind == Slow && !(f.Factor > 1): // also what is no number
		return errors.New("it needs a factor above 1")
	case f.Kind == Status && (f.Status < 400 || f.Status > 599):
		return errors.New("it needs a status from 400 to 599")
	case f.Kind == Delay && f.Latency <= 0:
		return errors.New("it needs a latency")
	case f.Kind == Events && f.Events == nil, f.Kind == Clock && f.Jump == 0:
		return errors.New("it needs events, or a jump")
	case f.Weight < 0, f.At < 0, f.For[0] < 0, f.Back[0] < 0, f.Jitter < 0:
		return errors.New("weight, at, for, back and jitter must not be below 0")
	}
	return nil
}

// lacks says whether a fault may strike a real engine that has not what it needs.
func (p Plan) lacks(f Fault, has func(Real) bool) bool {
	for i, r := range p.Fleet.Real {
		if !has(r) && (f.Engine == nil || *f.Engine == i) {
			return true
		}
	}
	return false
}
