package variants

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
)

var sample = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} (\S+)$`)

// stored counts the writes of all clients that the API server has accepted, by verb and resource.
// It does not count Leases, APIServices (their status is availability), reviews (created by POST,
// but not stored), and requests to the package server, which it only proxies.
func (e *environment) stored(t *testing.T) map[string]int {
	t.Helper()
	client, err := kubernetes.NewForConfig(e.config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, m := range sample.FindAllStringSubmatch(string(text), -1) {
		labels := map[string]string{}
		for pair := range strings.SplitSeq(m[1], ",") {
			key, value, _ := strings.Cut(pair, "=")
			labels[key] = strings.Trim(value, `"`)
		}
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}, labels["verb"]), !strings.HasPrefix(labels["code"], "2"):
		case labels["resource"] == "leases", labels["resource"] == "apiservices", strings.HasSuffix(labels["resource"], "reviews"), labels["group"] == "porch.kpt.dev":
		default:
			all[fmt.Sprintf("%s %s %s", labels["verb"], labels["resource"], labels["subresource"])] += int(value)
		}
	}
	return all
}

// TestWrites: from the publication of an upstream to the last draft, everything that is written, by
// all processes.
func TestWrites(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	const targets = 20
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	e.create(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: endpoints}, data: {region: north}}")
	name := func(i int) string { return fmt.Sprintf("web-%d", i) }
	for i := range targets {
		e.create(t, variantText(name(i), "package: web, revision: latest", name(i), "packageContext: {data: {number: '"+fmt.Sprint(i)+"'}}, injectors: [{name: endpoints}]"))
	}
	for i := range targets {
		e.ready(t, name(i), v1, configv1alpha1.VariantDraft)
		e.move(t, e.only(t, "edge", name(i), draft).Name, published)
	}
	v2 := e.draft(t, "catalog", "web", "v2", v1, map[string]string{"a.yaml": configMap("a", "upstream", "two")})
	for _, to := range []configv1alpha1.VariantState{configv1alpha1.VariantPublished, configv1alpha1.VariantDraft} {
		if to == configv1alpha1.VariantDraft {
			e.move(t, v2, proposed)
		}
		for i := range targets {
			e.ready(t, name(i), v1, configv1alpha1.VariantPublished)
		}
	}
	e.quiet(t)
	e.traffic.Reset()
	before := e.stored(t)
	e.move(t, v2, published)
	for i := range targets {
		e.ready(t, name(i), v2, configv1alpha1.VariantDraft)
	}
	e.quiet(t)
	after := e.stored(t)
	total := 0
	var told []string
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if n := after[what] - before[what]; n != 0 {
			total += n
			told = append(told, fmt.Sprintf("%d %s", n, what))
		}
	}
	// The publication itself: a number, the revision, and the label of the one before.
	const publication, perTarget = 4, 5
	t.Logf("%d writes for %d targets: %s; the controller asked for %d", total, targets, strings.Join(told, ", "), len(e.traffic.Written("")))
	if most := publication + perTarget*targets; total > most {
		t.Errorf("%d writes, at most %d are needed", total, most)
	}
	for i := range targets {
		if n := len(e.list(t, "edge", name(i))); n != 2 {
			t.Errorf("%s has %d revisions", name(i), n)
		}
	}
}
