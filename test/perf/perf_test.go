package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const workLine = `{"type":"%s","object":{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"annotations":{"spec":"x"},` +
	`"name":"%s","namespace":"%s","resourceVersion":"7"},"spec":{"workload":{"manifests":[{"data":{"mark":"%s"},"metadata":{"name":"a"}},{"data":{"mark":"%s"}}]}}}}`

func line(kind, name, mailbox string, marks ...mark) []byte {
	return fmt.Appendf(nil, workLine, kind, name, mailbox, marks[0].of(placed), marks[1].of(placed))
}

// TestWatcher checks when mailboxes have the expected content, while other mailboxes and other
// works change too.
func TestWatcher(t *testing.T) {
	w := &watcher{mailboxes: map[side]map[string]mailbox{placed: {}, bare: {}}}
	note := func(text []byte) {
		t.Helper()
		if version, err := w.note(text); err != nil || version != "7" {
			t.Fatalf("version %q, error %v", version, err)
		}
	}
	begun := func(a *arrivals) bool { return !a.first.IsZero() }
	ended := func(a *arrivals) bool {
		select {
		case <-a.complete:
			return true
		default:
			return false
		}
	}
	want := mark{object: 17, edit: 2}
	a := w.expect(placed, []string{"one", "two"}, func(m mailbox) bool { return m.edited(want) })
	note(line("ADDED", "w", "one", mark{17, 1}, mark{18, 9}))
	note(line("ADDED", "w", "other", mark{17, 2}, mark{18, 1}))
	bareLine := strings.ReplaceAll(string(line("ADDED", "w", "one", mark{17, 2}, mark{18, 1})), markBegins[placed], markBegins[bare])
	note([]byte(bareLine))
	if begun(a) {
		t.Fatal("the expectation was met without any work")
	}
	note(line("MODIFIED", "w", "one", mark{18, 9}, mark{17, 2}))
	if !begun(a) || ended(a) {
		t.Fatalf("one of two arrived: begun %v, ended %v", begun(a), ended(a))
	}
	note(line("MODIFIED", "v", "two", mark{17, 3}, mark{1, 1}))
	if !ended(a) {
		t.Fatal("both arrived, but the expectation was not met")
	}
	if n := w.missing(placed, []string{"one", "two", "three"}, []mark{{17, 2}, {18, 9}}); n != 3 {
		t.Errorf("%d marks are missing, want 3: both of three, and that of 18 in two", n)
	}
	gone := w.expect(placed, []string{"two"}, func(m mailbox) bool { return len(m) == 0 })
	note(line("DELETED", "v", "two", mark{17, 3}, mark{1, 1}))
	if !ended(gone) {
		t.Error("the only work was deleted, but the expectation was not met")
	}
	if _, err := w.note([]byte(`{"type":"ERROR","object":{"kind":"Status","message":"too old"}}`)); err == nil || err.Error() != "too old" {
		t.Errorf("an error of the watch gives %v", err)
	}
}

func TestDifference(t *testing.T) {
	work := func(hash string, contents ...string) map[string]any {
		var manifests []any
		for _, c := range contents {
			manifests = append(manifests, map[string]any{"data": c})
		}
		return map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"example.com/hash": hash}},
			"spec":     map[string]any{"workload": map[string]any{"manifests": manifests}},
		}
	}
	for name, tc := range map[string]struct {
		before, after map[string]any
		want          string
	}{
		"Same": {work("1", "a", "b"), work("1", "a", "b"), `null`},
		"One": {
			work("1", "a", "b"), work("2", "a", "c"),
			`[{"op":"replace","path":"/spec/workload/manifests/1","value":{"data":"c"}},{"op":"add","path":"/metadata/annotations/example.com~1hash","value":"2"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := difference(tc.before, tc.after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := difference(work("1", "a"), work("1", "a", "b")); err == nil {
		t.Error("another number of manifests: want an error")
	}
}

func TestEachSample(t *testing.T) {
	const text = `# HELP apiserver_request_total Requests
apiserver_request_total{code="200",resource="manifestworks",subresource="",verb="PATCH"} 12
apiserver_request_total{code="200",resource="manifestworks",subresource="status",verb="PATCH"} 1e+06
apiserver_request_total_other{resource="manifestworks"} 7
plain 3
`
	var got []string
	for _, metric := range []string{"apiserver_request_total", "plain"} {
		err := eachSample([]byte(text), metric, func(labels map[string]string, value float64) {
			got = append(got, fmt.Sprint(labels["verb"], " ", labels["subresource"], " ", value))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"PATCH  12", "PATCH status 1e+06", "  3"}, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestMissed(t *testing.T) {
	rounds := func(factor float64, d requests) []round {
		var rounds []round
		for _, ms := range []float64{90, 100, 300} {
			bare := time.Duration(ms) * time.Millisecond
			rounds = append(rounds, round{bare: timing{last: bare}, real: timing{last: time.Duration(factor * float64(bare))}, requests: d})
		}
		return rounds
	}
	good := requests{"PATCH": 50}
	for name, tc := range map[string]struct {
		result result
		want   int
	}{
		"Met":       {result{comparisons: []comparison{{rounds: rounds(1.5, good), writes: 50, factor: 1.6}}}, 0},
		"Slow":      {result{comparisons: []comparison{{rounds: rounds(1.7, good), writes: 50, factor: 1.6}}}, 1},
		"Allowance": {result{comparisons: []comparison{{rounds: rounds(1.7, good), writes: 50, factor: 1.6, extra: 50 * time.Millisecond}}}, 0},
		"Late":      {result{comparisons: []comparison{{rounds: rounds(1, good), writes: 50, factor: 1.6, most: 99 * time.Millisecond}}}, 1},
		"InTime":    {result{comparisons: []comparison{{rounds: rounds(1, good), writes: 50, factor: 1.6, most: 100 * time.Millisecond}}}, 0},
		"Writes":    {result{comparisons: []comparison{{rounds: rounds(1, requests{"PATCH": 51}), writes: 50, factor: 1.6}}}, 1},
		"Reads":     {result{comparisons: []comparison{{rounds: rounds(1, requests{"PATCH": 50, "GET": 1}), writes: 50, factor: 1.6}}}, 1},
		"Figure":    {result{figures: []figure{{what: "a", missed: true}, {what: "b"}}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.result.missed(); len(got) != tc.want {
				t.Errorf("missed %v, want %d", got, tc.want)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	u, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if u.rss < 1<<20 || u.peak < u.rss {
		t.Errorf("usage %+v", u)
	}
}

// TestCombinedVersion checks that the generation is read from a table that has it, and only from
// such a table.
func TestCombinedVersion(t *testing.T) {
	table := func(columns ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"status.kubestellar.io/namespace": "ns", "status.kubestellar.io/name": "n"}},
			"results":  []any{map[string]any{"rows": []any{map[string]any{"columns": columns}}}},
		}}
	}
	for name, tc := range map[string]struct {
		table *unstructured.Unstructured
		want  []state
	}{
		"Number":  {table: table(map[string]any{"type": "Number", "float": "7"}), want: []state{{object: "ns/n", status: 7}}},
		"Null":    {table: table(map[string]any{"type": "Null"})},
		"NoRows":  {table: &unstructured.Unstructured{Object: map[string]any{"results": []any{map[string]any{}}}}},
		"NoTable": {table: &unstructured.Unstructured{Object: map[string]any{}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, combinedVersion(tc.table), cmp.AllowUnexported(state{})); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStatusReport checks that a figure without a goal is neither met nor missed, and that samples
// and memory are lines for benchstat.
func TestStatusReport(t *testing.T) {
	results := []result{{
		scenario: "absorb",
		figures:  []figure{{what: "a", value: "1"}, {what: "b", value: "2", goal: "3", missed: true}},
		samples:  []sample{{name: "first reports, x", took: time.Second, bare: time.Millisecond}, {name: "y", took: 1}},
		memory:   map[string]usage{"a program": {rss: 1 << 20, peak: 2 << 20}},
	}}
	var table, bench strings.Builder
	printResults(&table, "markdown", "BenchmarkStatus", "noted", results)
	if want := "noted\n\n|  | measured | goal |  |\n|---|---|---|---|\n| a | 1 |  |  |\n| b | 2 | 3 | MISSED |\n"; !strings.Contains(table.String(), want) {
		t.Errorf("table:\n%s\nwant:\n%s", table.String(), want)
	}
	printResults(&bench, "bench", "BenchmarkStatus", "", results)
	if want := "BenchmarkStatus/first_reports_x 1 1000000000 ns/op 1000000 bare-ns/op\nBenchmarkStatus/y 1 1 ns/op\nBenchmarkStatus/absorb/a_program 1 2097152 peak-B\n"; !strings.HasSuffix(bench.String(), want) {
		t.Errorf("lines:\n%s\nwant:\n%s", bench.String(), want)
	}
	if errs := results[0].missed(); len(errs) != 1 {
		t.Errorf("missed: %v, want one", errs)
	}
}
