package chaos

import "time"

// Result is what a run recorded, and what is thought of it. Times count from the run's start.
type Result struct {
	Plan     string        `json:"plan"`
	Seed     uint64        `json:"seed"`
	Engines  int           `json:"engines"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took"`
	Verdicts []Verdict     `json:"verdicts"`
	Faults   []Struck      `json:"faults"`
	Streams  []Stream      `json:"streams"`
	Hits     []Hit         `json:"hits"`
	Attempts []Attempt     `json:"attempts"`
	Samples  []Sample      `json:"samples"`
	Leaves   []Leave       `json:"leaves,omitempty"`
	End      Ending        `json:"end"`
}

// Struck is a fault that happened.
type Struck struct {
	Kind   Kind          `json:"kind"`
	Engine int           `json:"engine"`
	At     time.Duration `json:"at"`
	Over   time.Duration `json:"over"` // when all was well again, as far as the fault goes
	Under  int           `json:"under"`
	Error  string        `json:"error,omitempty"`
}

// Stream is a request and what became of it.
type Stream struct {
	Request  int           `json:"request"`
	Class    Class         `json:"class"`
	Prompt   int           `json:"prompt_tokens"`
	Tokens   int           `json:"tokens"` // of all answers, as usage says
	Began    time.Duration `json:"began"`
	Ended    time.Duration `json:"ended"`
	Attempts int           `json:"attempts"`
	Error    string        `json:"error,omitempty"` // why there is no whole answer
	Wrong    string        `json:"wrong,omitempty"` // why the answer is not the right one
}

// Sample is how things stood at a time.
type Sample struct {
	At      time.Duration `json:"at"`
	Open    int           `json:"open"`   // streams
	Tokens  int           `json:"tokens"` // frames with text since the sample before
	Running []int         `json:"running"`
	States  []string      `json:"states"`
}

// Ending is how things stood at the end.
type Ending struct {
	Left          left          `json:"left"`
	Zero          time.Duration `json:"zero"` // after the last answer; how long until nothing was booked
	Live          time.Duration `json:"live"` // after the last fault was over; how long until all engines served
	NotServing    []string      `json:"not_serving,omitempty"`
	States        []string      `json:"states"`
	Index         []string      `json:"index"`
	Predicted     int           `json:"predicted_cached_tokens"`
	Reported      int           `json:"reported_cached_tokens"`
	Panics        int           `json:"panics"`
	Resumed       int           `json:"resumed"`
	EngineSeconds float64       `json:"engine_cpu_seconds"`
	ServeSeconds  float64       `json:"serve_cpu_seconds"`
	OwnSeconds    float64       `json:"own_cpu_seconds"`
}
