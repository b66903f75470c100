package prefix

// lingering remembers the names of blocks whose last copy was removed: an offload tier's store, which names them by hash
// alone, may come after the removal from the device. Their entries stay in the bank, so that a chain comes back with its
// structure. In the slot's names they are odd, without copies.
//
// Only slots that were told of a tier below the device keep any: to the others it would be of no use.
type lingering struct {
	max    int      // names that are kept at most
	wanted bool     // the slot was told of a tier below the device
	places dict     // a name to its place in order, from 1 on
	order  []uint64 // the last names to go, round and round; some are in use again, or gone, and then places does not lead here
	next   int      // the oldest one's place
}

// latter stands for the plane of lingering names where names of an entry are counted.
const latter plane = -1

// noteTiers looks whether a batch tells of a tier below the device: what it removes before may be stored there.
func (sl *slot) noteTiers(events []Event) {
	for i := range events {
		if e := &events[i]; e.Kind == Stored && e.Tier != Device && e.Tier < NumTiers {
			sl.lingering.wanted = true
			return
		}
	}
}

// retire takes a name that has lost its last copy from names, or lets it linger, before its entry is given up, under the
// bank's lock. What is in use for several contents does not linger: no telling which one would come back.
func (sl *slot) retire(at spot, name uint64, id uint32) {
	lg := &sl.lingering
	if !lg.wanted || sl.torn[name] > 0 {
		sl.names.removeAt(at)
		return
	}
	sl.names.setAt(at, id|odd)
	if word := sl.bank.late.word(id); word&sl.bit() == 0 {
		sl.bank.late.set(id, sl.bit())
	} else {
		sl.gainAlias(latter, id)
	}
	if len(lg.order) < lg.max {
		lg.order = append(lg.order, name)
		lg.places.set(name, uint32(len(lg.order))) //nolint:gosec // at most max
		return
	}
	place := lg.next
	lg.next = (place + 1) % lg.max
	if oldest := lg.order[place]; lg.places.get(oldest) == uint32(place)+1 { //nolint:gosec // at most max
		at, _ := sl.names.locate(oldest)
		sl.discard(at, oldest)
	}
	lg.order[place] = name
	lg.places.set(name, uint32(place)+1) //nolint:gosec // at most max
}

// resume is for a name that gets a copy: it does not linger any more. It reports false if it did not. The entry must be
// held before the lock is given up.
func (sl *slot) resume(name uint64, id uint32) bool {
	lg := &sl.lingering
	if lg.places.used == 0 || lg.places.get(name) == 0 {
		return false
	}
	lg.places.remove(name)
	if !sl.loseAlias(latter, id) {
		sl.bank.late.unset(id, sl.bit())
	}
	return true
}

// discard forgets a name if it lingers; false if it does not. Its spot is free then.
func (sl *slot) discard(at spot, name uint64) bool {
	id := sl.names.get(name) &^ odd
	if !sl.resume(name, id) {
		return false
	}
	sl.names.removeAt(at)
	sl.bank.tidy(id)
	return true
}

// reset forgets all names; their entries are swept with those of the others.
func (lg *lingering) reset() {
	*lg = lingering{max: lg.max, wanted: lg.wanted}
}
