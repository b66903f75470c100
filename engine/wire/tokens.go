package wire

import "strconv"

// BytesPerToken is how much a token ID and its comma take on the wire, for the sizing of buffers.
const BytesPerToken = 7

// AppendIDs appends token IDs as a JSON array.
func AppendIDs(dst []byte, ids []uint32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	return append(dst, ']')
}

// LeastLogprob stands for a token that cannot come, as in OpenAI's API. Servers send null or the lowest float.
const LeastLogprob = -9999

// Logprob bounds a log probability from below; null is the least.
func Logprob(logprob *float64) float64 {
	if logprob == nil {
		return LeastLogprob
	}
	return max(*logprob, LeastLogprob)
}
