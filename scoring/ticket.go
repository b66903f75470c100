package scoring

import "strconv"

// Ticket names one reservation for ever: the life of the node that issued it and a number within that life. It is never
// derived from anything a client sends.
type Ticket struct {
	Boot   uint64 // the issuing node's life
	Number uint64 // grows by one a ticket within that life
}

// Less orders tickets by boot, then by number.
func (t Ticket) Less(o Ticket) bool { return t.Compare(o) < 0 }

// Compare is -1 if t sorts before o, 1 if after it, 0 if they are the same.
func (t Ticket) Compare(o Ticket) int {
	switch {
	case t == o:
		return 0
	case t.Boot < o.Boot, t.Boot == o.Boot && t.Number < o.Number:
		return -1
	default:
		return 1
	}
}

// String gives boot in hexadecimal and number in decimal, as logs show it.
func (t Ticket) String() string {
	return strconv.FormatUint(t.Boot, 16) + "/" + strconv.FormatUint(t.Number, 10)
}
