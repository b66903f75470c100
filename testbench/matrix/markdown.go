package matrix

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/testbench/trial"
)

// shown lists the figures of the tables.
func shown() []string {
	return []string{"good", "ttft_p50", "ttft_p99", "tpot_p99", "hit_share", "refused", "preemptions"}
}

// Markdown lays lines out: how the first policy compares with each other one, then every ground's figures. command is what
// made them.
func Markdown(lines []Line, policies []string, command string) string {
	grounds := gather(lines)
	var b strings.Builder
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format, args...) } // a builder takes everything
	say("# Routing policies in figures\n\nMade by `%s`, of build %s, on simulated fleets (testbench/fleet): virtual time, no wall clock.\n\n", command, builds(lines))
	say("Good: %s. What was refused or failed counts as infinite in every percentile. Load 1 is the best saturated throughput of the place. "+
		"Means over the seeds; 95 %% bootstrap intervals in brackets.\n\n", goodMeans())
	say("## %s against each policy\n\nOver all grounds: in how many it is no worse (the interval of the paired differences holds 0, or lies on the better side) in all of "+
		"good share, TTFT p50, TTFT p99 and TPOT p99, and in each of them. Near saturation: of the grounds at a load of %g and more, where its good share is at "+
		"least 1.3 times that of the other, or 99 %%. Preempted: how often engines did, of how many requests.\n\n", policies[0], nearSaturation)
	say("| against | grounds | no worse in all | good | TTFT p50 | TTFT p99 | TPOT p99 | near saturation | preempted |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	say("| (%s) | | | | | | | | %s |\n", policies[0], preempted(grounds, policies[0]))
	for _, other := range policies[1:] {
		met, all, each, near, nearAll := 0, 0, make([]int, len(judged())), 0, 0
		for _, r := range grounds {
			words := r.words(policies[0], other)
			if words == nil {
				continue
			}
			met++
			if !slices.Contains(words, Worse) {
				all++
			}
			if r.ground.Load >= nearSaturation {
				nearAll++
				if r.ahead(policies[0], other) {
					near++
				}
			}
			for i, w := range words {
				if w != Worse {
					each[i]++
				}
			}
		}
		say("| %s | %d | %d |", other, met, all)
		for _, n := range each {
			say(" %d |", n)
		}
		say(" %d of %d | %s |\n", near, nearAll, preempted(grounds, other))
	}
	say("\n## Grounds\n\nBehind each policy: how %s compares with it in good share, TTFT p50, TTFT p99 and TPOT p99 (+ better, = neither, - worse).\n", policies[0])
	for _, r := range grounds {
		ground(say, r, policies)
	}
	return b.String()
}

// preempted says how often engines preempted under a policy.
func preempted(grounds []*results, policy string) string {
	times, requests := 0, 0
	for _, r := range grounds {
		for _, l := range r.policies[policy] {
			times, requests = times+l.Summary.Preemptions, requests+l.Summary.Requests
		}
	}
	return fmt.Sprintf("%d of %d", times, requests)
}

// ground writes one ground's table.
func ground(say func(string, ...any), r *results, policies []string) {
	var head, line []string
	for _, m := range trial.Metrics() {
		if slices.Contains(shown(), m.Name) {
			head, line = append(head, title(m)), append(line, "---:")
		}
	}
	var first *Line
	for _, p := range policies {
		if list := r.policies[p]; first == nil && len(list) > 0 {
			first = list[0]
		}
	}
	say("\n### %s\n\n%d requests, %.2f a second of %.2f.\n\n| policy | seeds | | %s |\n|---|---:|---|%s|\n",
		r.ground, first.Summary.Requests, first.PerSecond, first.Saturation, strings.Join(head, " | "), strings.Join(line, "|"))
	for i, p := range policies {
		list := r.policies[p]
		if len(list) == 0 {
			continue
		}
		say("| %s | %d | ", p, len(list))
		if i > 0 {
			for _, w := range r.words(policies[0], p) {
				say("%s", w.Sign())
			}
		}
		say(" |")
		for _, m := range trial.Metrics() {
			if slices.Contains(shown(), m.Name) {
				say(" %s |", figure(m, trial.Bootstrap(r.values(p, m))))
			}
		}
		say("\n")
	}
}

// title is a figure's head where it stands alone.
func title(m trial.Metric) string {
	switch m.Name {
	case "ttft_p99":
		return "TTFT p99 s"
	case "tpot_p99":
		return "TPOT p99 ms"
	}
	return m.Head
}

func figure(m trial.Metric, i trial.Interval) string {
	if i.Low < i.High {
		return fmt.Sprintf("%s (%s-%s)", m.Text(i.Mean), m.Text(i.Low), m.Text(i.High))
	}
	return m.Text(i.Mean)
}

func goodMeans() string {
	slo := trial.DefaultSLO()
	return fmt.Sprintf("first token within %s + %s a prompt token, and a mean of at most %s a token after it", slo.TTFT, slo.TTFTPerToken, slo.TPOT)
}

// builds names all that made the lines.
func builds(lines []Line) string {
	var names []string
	for _, l := range lines {
		if l.Build != "" && !slices.Contains(names, l.Build) {
			names = append(names, l.Build)
		}
	}
	return strings.Join(names, ", ")
}
