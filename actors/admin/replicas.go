package admin

import (
	"cmp"
	"slices"
	"time"

	"plimsoll/actors/fleet"
)

// Replica is one replica in the report. Times are in seconds; what an engine does not tell is absent.
type Replica struct {
	Name         string  `json:"name"`
	Model        string  `json:"model"`
	Engine       string  `json:"engine"`
	Identity     string  `json:"identity,omitempty"` // kind, URL and data-parallel rank, by which the replica is known whatever its name
	EngineModel  string  `json:"engine_model,omitempty"`
	State        string  `json:"state"`
	StateSeconds float64 `json:"state_seconds"`
	Incarnation  uint64  `json:"incarnation"`
	Epoch        uint64  `json:"epoch"`
	Recovering   bool    `json:"recovering,omitempty"`
	// CoolingSeconds is how long it gets nothing more because it shed a request, CoolingWhy what it said then.
	CoolingSeconds *float64 `json:"cooling_seconds,omitempty"`
	CoolingWhy     string   `json:"cooling_why,omitempty"`
	LastError      string   `json:"last_error,omitempty"`
	// Suspect: it is silent, and takes nothing until it shows that it lives. Hung: it did not, and is tried again.
	Suspect bool `json:"suspect,omitempty"`
	Hung    bool `json:"hung,omitempty"`
	Strikes int  `json:"strikes,omitempty"` // in a row
	// QuotaSeats is how many seats it is given while it ramps up; absent: all.
	QuotaSeats *int `json:"quota_seats,omitempty"`
	// StepSecondsP99 is the gap between two tokens of a stream that 99 of 100 do not exceed.
	StepSecondsP99 *float64 `json:"step_seconds_p99,omitempty"`
	// LeaveSeconds is how long what runs on a draining one may go on there.
	LeaveSeconds *float64  `json:"leave_seconds,omitempty"`
	Capacity     *Capacity `json:"capacity,omitempty"`
	Load         Load      `json:"load"`
	Said         Said      `json:"engine_load"`
	Index        Index     `json:"index"`
	Process      *Process  `json:"process,omitempty"` // of an engine that this node starts itself
}

// Capacity is what a replica can hold.
type Capacity struct {
	KVBlocks       int `json:"kv_blocks"`
	BlockTokens    int `json:"block_tokens"`
	Seats          int `json:"seats"`
	SequenceTokens int `json:"sequence_tokens"`
}

// Load is what this node has booked.
type Load struct {
	BookedBlocks        int `json:"booked_blocks"`
	FreeBlocks          int `json:"free_blocks"`
	OverdraftBlocks     int `json:"overdraft_blocks"`
	ForeignBlocks       int `json:"foreign_blocks"`
	SeatsBooked         int `json:"seats_booked"`
	Reserved            int `json:"reserved"`
	Running             int `json:"running"`
	Lingering           int `json:"lingering"`
	QueuedPrefillTokens int `json:"queued_prefill_tokens"`
	DecodeKVTokens      int `json:"decode_kv_tokens"`
}

// Said is what the engine says of itself.
type Said struct {
	RunningSequences *int    `json:"running_sequences,omitempty"`
	WaitingSequences *int    `json:"waiting_sequences,omitempty"`
	UsedBlocks       *int    `json:"used_blocks,omitempty"`
	Steps            *uint64 `json:"steps,omitempty"`
}

// Index is the replica's part of the prefix index.
type Index struct {
	State string `json:"state"` // none, void, live, replaying, partial or approximate
	Why   string `json:"why,omitempty"`
	Void  bool   `json:"void"` // nothing of it counts now
	// BatchAgeSeconds is how long ago the engine's events came last; absent if none have.
	BatchAgeSeconds *float64 `json:"batch_age_seconds,omitempty"`
	// Cached prompt tokens that the index predicted and those that the engine found, over the requests whose engine told,
	// and how many of the former there are for one of the latter; absent while the engine has found none.
	PredictedCachedTokens int      `json:"predicted_cached_tokens"`
	ReportedCachedTokens  int      `json:"reported_cached_tokens"`
	PredictedToReported   *float64 `json:"predicted_to_reported,omitempty"`

	BlockTokens  int `json:"block_tokens,omitempty"`
	Blocks       int `json:"blocks"`      // on the device
	HostBlocks   int `json:"host_blocks"` // in the host's memory
	DiskBlocks   int `json:"disk_blocks"` // on disk or in a remote store
	Orphans      int `json:"orphans"`
	Holes        int `json:"holes"`
	Speculations int `json:"speculations"`
}

// report lays the replicas out, sorted by model and name.
func report(now time.Time, refs []*fleet.Ref, nameOf func(model string) string) []Replica {
	out := make([]Replica, 0, len(refs))
	for _, ref := range refs {
		out = append(out, lay(now, ref, nameOf))
	}
	slices.SortFunc(out, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func lay(now time.Time, ref *fleet.Ref, nameOf func(model string) string) Replica {
	s := ref.Snapshot()
	r := Replica{
		Name: string(ref.ID), Model: nameOf(ref.Model), Engine: ref.Capabilities.Kind, Identity: ref.Identity, EngineModel: s.EngineModel,
		State: s.Standing(now), Incarnation: s.Incarnation, Epoch: s.Epoch, Recovering: s.Recovering, LastError: s.LastError,
		Load: Load{
			BookedBlocks: int(s.Load.BookedBlocks), FreeBlocks: int(s.Load.FreeBlocks()),
			OverdraftBlocks: int(s.Load.OverdraftBlocks), ForeignBlocks: int(s.Load.ForeignBlocks),
			SeatsBooked: s.Load.SeatsBooked, Reserved: s.Load.Reserved, Running: s.Load.Running, Lingering: s.Load.Lingering,
			QueuedPrefillTokens: int(s.Load.QueuedPrefillTokens), DecodeKVTokens: int(s.Load.DecodeKVTokens),
		},
		Said: Said{
			RunningSequences: s.EngineLoad.RunningSequences, WaitingSequences: s.EngineLoad.WaitingSequences,
			UsedBlocks: s.EngineLoad.UsedBlocks, Steps: s.EngineLoad.Steps,
		},
		Suspect: s.Suspect, Hung: s.Hung, Strikes: s.Strikes, QuotaSeats: s.QuotaSeats,
	}
	if s.StepP99 != nil {
		seconds := s.StepP99.Seconds()
		r.StepSecondsP99 = &seconds
	}
	if s.LeaveBy != nil {
		seconds := max(0, s.LeaveBy.Sub(now).Seconds())
		r.LeaveSeconds = &seconds
	}
	r.Process = processOf(now, ref.Engine)
	if !s.Since.IsZero() {
		r.StateSeconds = now.Sub(s.Since).Seconds()
	}
	if cooling := s.CoolingUntil.Sub(now); !s.CoolingUntil.IsZero() && cooling > 0 {
		seconds := cooling.Seconds()
		r.CoolingSeconds, r.CoolingWhy = &seconds, s.CoolingWhy
	}
	if s.Told {
		l := s.Load.Limits
		r.Capacity = &Capacity{int(l.KVBlocks), int(l.BlockTokens), l.Seats, int(l.SequenceTokens)}
	}
	r.Index = layIndex(now, ref, s)
	return r
}

func layIndex(now time.Time, ref *fleet.Ref, s *fleet.Snapshot) Index {
	feed := ref.Feed()
	x := Index{
		State: feed.State.String(), Why: feed.Why, Void: true,
		PredictedCachedTokens: int(feed.PredictedTokens), ReportedCachedTokens: int(feed.ReportedTokens),
	}
	if !feed.LastBatch.IsZero() {
		age := max(0, now.Sub(feed.LastBatch).Seconds())
		x.BatchAgeSeconds = &age
	}
	if feed.ReportedTokens > 0 {
		ratio := float64(feed.PredictedTokens) / float64(feed.ReportedTokens)
		x.PredictedToReported = &ratio
	}
	if p := ref.Place(); p != nil {
		st := p.Index.Stats(p.Slot)
		x.Void = st.Void || !s.State.IndexValid() || p.Incarnation != s.Incarnation
		x.HostBlocks, x.DiskBlocks = st.HostBlocks, st.DiskBlocks
		x.BlockTokens, x.Blocks, x.Orphans, x.Holes, x.Speculations = int(p.BlockTokens), st.Blocks, st.Orphans, st.Holes, st.Speculations
	}
	return x
}
