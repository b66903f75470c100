package replica

import (
	"time"

	"plimsoll/engine"
	"plimsoll/scoring"
)

// Messages between the replica actor and its children, and of the actor to itself.
type (
	// Probed: the engine answered a probe. From the connection.
	Probed struct {
		Status engine.Status
		Began  time.Time // when the probe was sent: its figures are of some later moment
		// Early and Foreign are what the model's accord makes of the answer. The actor fills them in.
		Early   bool   // another replica is to say first what the model is
		Foreign string // why the engine cannot serve the model; "": it can
	}
	// sayAgain: an answer that came early is to be held against the accord again. From the accord.
	sayAgain struct{}
	// ProbeFailed: it did not. From the connection.
	ProbeFailed struct {
		Failure *engine.Failure
		Began   time.Time
	}
	// probeNow: something looks wrong, don't wait for the interval. To the connection.
	probeNow struct{}
	// tune says at what index block size and capacity the feed works, for which life. To the feed.
	tune struct {
		blockTokens scoring.Tokens
		capacity    scoring.Tokens
		incarnation uint64
	}
	// void: what the index holds of this replica counts no more. To the feed.
	void struct{}
	// FeedReady: the feed has begun for this life, or again after the engine was down. From the feed.
	FeedReady struct{ Incarnation uint64 }
	// canary asks for one token. To the connection.
	canary struct {
		number uint64
		model  string
	}
	// noCanary cancels it. To the connection.
	noCanary struct{}
	// canaryDone: a canary has ended. From its goroutine.
	canaryDone struct {
		number uint64
		err    error
	}
	// tick: the time that the machine asked for has come. From a timer.
	tick struct{}
)
