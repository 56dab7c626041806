// Package monitoring tests the alerts and the dashboard of this directory, and docs/metrics.md.
package monitoring

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	ofStarling  = "Metrics of Starling"
	ofLibraries = "Metrics of libraries"
	ofOthers    = "Metrics of other programs"
)

// TestMetricsAreDocumented: docs/metrics.md has each metric that the code declares, with its type
// and its labels, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	if diff := cmp.Diff(declared(t), documented(t)[ofStarling]); diff != "" {
		t.Errorf("metrics (-declared +docs/metrics.md):\n%s", diff)
	}
}

// TestMetricsOfLibrariesAreDocumented: so are the metrics that libraries register, some of them by
// the beginnings of their names.
func TestMetricsOfLibrariesAreDocumented(t *testing.T) {
	unused := maps.Clone(documented(t)[ofLibraries])
	rows := documented(t)[ofLibraries]
	for name, labels := range described(t) {
		if row, ok := rows[name]; ok {
			delete(unused, name)
			if diff := cmp.Diff(labels, row.Labels); diff != "" {
				t.Errorf("labels of %s (-registered +docs/metrics.md):\n%s", name, diff)
			}
			continue
		}
		found := false
		for row := range rows {
			if prefix, ok := strings.CutSuffix(row, "*"); ok && strings.HasPrefix(name, prefix) {
				found = true
				delete(unused, row)
			}
		}
		if !found {
			t.Errorf("docs/metrics.md does not have %s", name)
		}
	}
	for row := range unused {
		t.Errorf("docs/metrics.md has %s, which no program registers", row)
	}
}

// known returns all metrics that expressions may use.
func known(t *testing.T) map[string]metric {
	t.Helper()
	all := map[string]metric{}
	for _, section := range documented(t) {
		for name, m := range section {
			if !strings.HasSuffix(name, "*") {
				all[name] = m
			}
		}
	}
	return all
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts")
	}
	return all
}

var labelOfAlert = regexp.MustCompile(`\$labels\.(\w+)`)

// TestAlerts: alerts use metrics and labels that exist, and have what their readers need.
func TestAlerts(t *testing.T) {
	metrics := known(t)
	for _, a := range alerts(t) {
		labels, err := check(metrics, a.Expr)
		if err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
		for _, text := range a.Annotations {
			for _, match := range labelOfAlert.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(labels, match[1]) {
					t.Errorf("%s: the result has no label %q, which is in: %s", a.Alert, match[1], text)
				}
			}
		}
		if !slices.Contains([]string{"warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("%s has severity %q", a.Alert, a.Labels["severity"])
		}
		if a.For == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no duration, summary or description", a.Alert)
		}
	}
}

var headingOfAlert = regexp.MustCompile(`(?m)^### (Starling\w+)$`)

// TestAlertsHaveRunbooks: docs/operations.md says what each alert means, and has no other ones.
func TestAlertsHaveRunbooks(t *testing.T) {
	var want, got []string
	for _, a := range alerts(t) {
		want = append(want, a.Alert)
	}
	_, text, ok := strings.Cut(read(t, "../../docs/operations.md"), "\n## Alerts\n")
	if !ok {
		t.Fatal(`docs/operations.md has no section "Alerts"`)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	sections := headingOfAlert.Split(text, -1)[1:]
	for i, match := range headingOfAlert.FindAllStringSubmatch(text, -1) {
		got = append(got, match[1])
		if len(strings.TrimSpace(sections[i])) < 100 {
			t.Errorf("docs/operations.md says too little on %s", match[1])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts (-alerts.yaml +docs/operations.md):\n%s", diff)
	}
}

var (
	labelOfLegend = regexp.MustCompile(`{{(\w+)}}`)
	labelValues   = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
)

// TestDashboard: the dashboard uses metrics and labels that exist.
func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			ID      int    `json:"id"`
			Type    string `json:"type"`
			Title   string `json:"title"`
			Targets []struct {
				Expr         string `json:"expr"`
				LegendFormat string `json:"legendFormat"`
			} `json:"targets"`
		} `json:"panels"`
		Templating struct {
			List []struct {
				Name  string `json:"name"`
				Type  string `json:"type"`
				Query string `json:"query"`
			} `json:"list"`
		} `json:"templating"`
	}
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	metrics := known(t)
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("two panels have the ID %d", panel.ID)
		}
		ids[panel.ID] = true
		if (len(panel.Targets) == 0) != (panel.Type == "row") {
			t.Errorf("panel %q of type %s has %d expressions", panel.Title, panel.Type, len(panel.Targets))
		}
		for _, target := range panel.Targets {
			labels, err := check(metrics, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
			if err != nil {
				t.Errorf("panel %q: %v", panel.Title, err)
			}
			for _, match := range labelOfLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(labels, match[1]) {
					t.Errorf("panel %q: the result has no label %q, which is in: %s", panel.Title, match[1], target.LegendFormat)
				}
			}
		}
	}
	for _, variable := range dashboard.Templating.List {
		if variable.Type != "query" {
			continue
		}
		match := labelValues.FindStringSubmatch(variable.Query)
		if match == nil {
			t.Fatalf("variable %s has the query %q", variable.Name, variable.Query)
		}
		if labels, err := check(metrics, match[1]); err != nil || !slices.Contains(labels, match[2]) {
			t.Errorf("variable %s: %v, labels %v", variable.Name, err, labels)
		}
	}
}

// TestCheck: the tests above find mistakes.
func TestCheck(t *testing.T) {
	metrics := map[string]metric{
		"writes_total": {Type: "counter", Labels: []string{"space"}},
		"seconds":      {Type: "histogram", Labels: []string{"cluster"}},
	}
	for name, c := range map[string]struct {
		expr   string
		labels string
		want   string
	}{
		"counter":           {expr: `sum by (space) (rate(writes_total{job="a"}[5m])) > 1`, labels: "space"},
		"histogram":         {expr: `histogram_quantile(0.5, sum by (cluster, le) (rate(seconds_bucket[5m])))`, labels: "cluster"},
		"count":             {expr: `rate(seconds_count[5m])`, labels: "cluster container endpoint instance job namespace pod service"},
		"scalar":            {expr: `time() - max by (cluster) (seconds_sum)`, labels: "cluster"},
		"syntax":            {expr: `sum(writes_total`, want: "unclosed"},
		"metric":            {expr: `writes`, want: `no metric "writes"`},
		"no bucket":         {expr: `writes_total_bucket`, want: `no metric "writes_total_bucket"`},
		"whole histogram":   {expr: `rate(seconds[5m])`, want: `"seconds" is a histogram`},
		"label of selector": {expr: `writes_total{cluster="a"}`, want: `no label "cluster"`},
		"label of grouping": {expr: `sum by (cluster) (writes_total)`, want: `no label "cluster"`},
		"label of matching": {expr: `seconds_sum * on (space) seconds_count`, want: `no label "space"`},
		"nested":            {expr: `sum(max by (space) (seconds_sum))`, want: `no label "space"`},
		"le of a counter":   {expr: `sum by (le) (writes_total)`, want: `no label "le"`},
		"without le":        {expr: `histogram_quantile(0.5, sum by (cluster) (rate(seconds_bucket[5m])))`, want: `no label "le"`},
	} {
		t.Run(name, func(t *testing.T) {
			labels, err := check(metrics, c.expr)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want an error with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.labels, strings.Join(labels, " ")); diff != "" {
				t.Errorf("labels of the result (-want +got):\n%s", diff)
			}
		})
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
