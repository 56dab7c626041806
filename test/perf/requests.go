package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// requests has the number of requests to an API server, by verb in upper case. Watches and
// connections do not count.
type requests map[string]int

// total returns the number of requests with these verbs.
func (r requests) total(verbs ...string) (sum int) {
	for _, verb := range verbs {
		sum += r[verb]
	}
	return sum
}

// only returns the requests with these verbs.
func (r requests) only(verbs ...string) requests {
	kept := maps.Clone(r)
	maps.DeleteFunc(kept, func(verb string, n int) bool { return n == 0 || !slices.Contains(verbs, verb) })
	return kept
}

var (
	writeVerbs = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}
	readVerbs  = []string{"GET", "LIST"}
)

func (r requests) minus(other requests) requests {
	d := requests{}
	for verb, n := range r {
		if n != other[verb] {
			d[verb] = n - other[verb]
		}
	}
	return d
}

func (r requests) String() string {
	var parts []string
	for _, verb := range slices.Sorted(maps.Keys(r)) {
		parts = append(parts, fmt.Sprintf("%s %d", verb, r[verb]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// selection reports whether a request with these labels counts.
type selection func(labels map[string]string) bool

// ofResource selects the requests for a resource, but not for its subresources.
func ofResource(resource string) selection {
	return func(labels map[string]string) bool {
		return labels["resource"] == resource && labels["subresource"] == ""
	}
}

// ofResources selects the requests for these resources and their subresources.
func ofResources(resources ...string) selection {
	return func(labels map[string]string) bool { return slices.Contains(resources, labels["resource"]) }
}

// requests returns how many requests the API server has served, from its metrics. If it has several
// replicas, these are the metrics of only one, and the counts are too small.
func (s *space) requests(ctx context.Context, counts selection) (requests, error) {
	return s.requestsBy(ctx, counts, func(labels map[string]string) string { return labels["verb"] })
}

// requestsBy is like requests, with other keys than verbs.
func (s *space) requestsBy(ctx context.Context, counts selection, key func(labels map[string]string) string) (requests, error) {
	text, err := s.raw.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", s.name, err)
	}
	sums := requests{}
	err = eachSample(text, "apiserver_request_total", func(labels map[string]string, value float64) {
		if verb := labels["verb"]; verb != "WATCH" && verb != "CONNECT" && counts(labels) {
			sums[key(labels)] += int(value)
		}
	})
	return sums, err
}

// eachSample calls f with each sample of one metric.
func eachSample(text []byte, metric string, f func(labels map[string]string, value float64)) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), metric)
		if !found || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		labels := map[string]string{}
		if rest[0] == '{' {
			end := strings.LastIndexByte(rest, '}')
			for pair := range strings.SplitSeq(rest[1:end], ",") {
				if name, value, ok := strings.Cut(pair, "="); ok {
					labels[name] = strings.Trim(value, `"`)
				}
			}
			rest = rest[end+1:]
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
		if err != nil {
			return fmt.Errorf("read metric %s: %w", metric, err)
		}
		f(labels, value)
	}
	return lines.Err()
}
