package dst

import (
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
)

// Plant is a bug to find: it alters what a machine is told or what it asks for. The machines know nothing of it.
type Plant struct {
	Name    string
	What    string  // what a user would have to live with
	Catches Checker // who must find it

	replica   func(h *host) replica.Shell
	stream    func(c *call) stream.Shell
	router    func(f *front) router.Shell
	toReplica func(h *host, message any) any // nil: the message is lost
	toRouter  func(f *front, message any) any
	batch     func(f *feed, run uint64, b *batch)
}
