package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
)

func TestParseSLO(t *testing.T) {
	second, ms := time.Second, time.Millisecond
	for text, want := range map[string]SLOSpec{
		"priority,ttft=1s":          {queue.Priority, stream.SLO{TTFT: &second}},
		"default,tpot=1ms":          {queue.Default, stream.SLO{TPOT: &ms}},
		"flex,ttft=1s,tpot=1ms":     {queue.Flex, stream.SLO{TTFT: &second, TPOT: &ms}},
		"flex,tpot=1ms,ttft=1000ms": {queue.Flex, stream.SLO{TTFT: &second, TPOT: &ms}},
	} {
		got, err := ParseSLO(text, 1)
		require.NoError(t, err)
		require.Equal(t, want, got)
		again, err := ParseSLO(got.String(), 1)
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for text, says := range map[string]string{
		"":                         "class",
		"gold,ttft=1s":             "priority, default, flex",
		"priority":                 "ttft=TIME",
		"priority,ttft":            "positive duration",
		"priority,ttft=0s":         "positive duration",
		"priority,ttft=fast":       "positive duration",
		"priority,ttft=1s,ttft=2s": "twice",
		"priority,latency=1s":      "no such option",
		"priority,ttft=1s,":        "no such option",
	} {
		_, err := ParseSLO(text, 1)
		require.ErrorContains(t, err, says, text)
	}
	_, err := slosOf([]SLOSpec{{Class: queue.Flex}, {Class: queue.Flex}})
	require.ErrorContains(t, err, "twice")
}
