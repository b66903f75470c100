package dst

import (
	"sync"
	"sync/atomic"
)

// Found is what the search for one planted bug has come to.
type Found struct {
	Plant *Plant
	Run   Result // in which its checker found it; without a violation if that did not happen
	Other int    // runs before it that violated something else
}

// Hunt searches for each planted bug, as [Plant.Find] does, workers of them at a time. The result is in the order of
// [Plants].
func Hunt(first, most uint64, workers int) []Found {
	plants := Plants()
	found := make([]Found, len(plants))
	var all sync.WaitGroup
	var next atomic.Int64
	for range workers {
		all.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= len(plants) {
					return
				}
				found[i].Plant = &plants[i]
				found[i].Run, found[i].Other = plants[i].Find(first, most)
			}
		})
	}
	all.Wait()
	return found
}
