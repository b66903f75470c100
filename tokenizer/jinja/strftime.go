package jinja

import (
	"fmt"
	"time"
)

// timeField formats one directive of strftime in the C locale. The time is naive, so that %z and %Z are empty.
func timeField(t time.Time, directive byte, padded bool) string {
	switch directive {
	case 'Y':
		return padInt(t.Year(), 4, padded)
	case 'y':
		return padInt(t.Year()%100, 2, padded)
	case 'm':
		return padInt(int(t.Month()), 2, padded)
	case 'd':
		return padInt(t.Day(), 2, padded)
	case 'H':
		return padInt(t.Hour(), 2, padded)
	case 'I':
		return padInt((t.Hour()+11)%12+1, 2, padded)
	case 'M':
		return padInt(t.Minute(), 2, padded)
	case 'S':
		return padInt(t.Second(), 2, padded)
	case 'j':
		return padInt(t.YearDay(), 3, padded)
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/int(time.Microsecond))
	case 'w':
		return padInt(int(t.Weekday()), 1, padded)
	case 'Z', 'z':
		return ""
	case '%':
		return "%"
	}
	layout, ok := map[byte]string{
		'e': "_2", 'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM",
		'F': "2006-01-02", 'T': "15:04:05", 'X': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06",
		'c': "Mon Jan _2 15:04:05 2006",
	}[directive]
	if !ok {
		throw(KindValue, "unsupported strftime directive %%%c", directive)
	}
	return t.Format(layout)
}
