package foresight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	publisher "github.com/starlinghq/starling/pkg/controller/settings"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/foresight/cli"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/test/testenv"
)

// TestSettings: the commands compute with the settings that controllers publish. What is not
// published, or may not be read, is unknown, and the defaults count.
func TestSettings(t *testing.T) {
	h := newHub(t)
	h.addClusters(t, "c1")
	h.applyAll(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {app: shop}}}\n---\n"+edge)
	change := file(t, fmt.Sprintf(settingsText, "red"))
	bindings := settings.Bindings{APIGroups: []string{"apps"}, MaxBindingSize: corebinding.DefaultMaxSize}
	transport := settings.Transport{ManagementNamespaces: []string{"open-cluster-management-x"}}
	h.wds.PublishSettings(t, bindings, transport)
	plan, code := h.plan(t, "-f", change)
	if code != 0 || len(plan.Unknown) > 0 || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "--api-groups") {
		t.Errorf("with another --api-groups: exit code %d, notes %q, unknown %q", code, plan.Notes, plan.Unknown)
	}
	h.wds.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: lost, namespace: shop}}")
	out, _, _ := h.command(t, cli.NewExplainCommand, "cm/lost")
	if !strings.Contains(out, "the binding-controller runs with --api-groups=apps") {
		t.Errorf("explain with another --api-groups: %s", out)
	}

	bindings.APIGroups = nil
	h.wds.PublishSettings(t, bindings, transport)
	h.wds.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: open-cluster-management-x}}")
	plan, _ = h.in("open-cluster-management-x").plan(t, "-f", file(t, strings.ReplaceAll(fmt.Sprintf(settingsText, "red"), "namespace: shop", "namespace: open-cluster-management-x")))
	if got := forecast(plan); got["c1 ConfigMap open-cluster-management-x/settings"] != "create" {
		t.Errorf("with --ocm-namespaces: %v", got)
	}

	for name, unknown := range map[string]string{settings.OfBindings: "the settings of the binding-controller", settings.OfTransport: "the settings of the transport-controller"} {
		h.wds.Delete(t, configMaps, settings.Namespace, name)
		plan, _ = h.plan(t, "-f", change)
		if !slices.ContainsFunc(plan.Unknown, func(text string) bool { return strings.HasPrefix(text, unknown) }) || len(forecast(plan)) != 1 {
			t.Errorf("without %s: unknown %q, %v", name, plan.Unknown, forecast(plan))
		}
		if out, _, _ := h.command(t, cli.NewExplainCommand, "cm/lost"); !strings.Contains(out, "unknown: "+unknown) {
			t.Errorf("explain without %s: %s", name, out)
		}
		if _, stderr, _ := h.command(t, cli.NewTreeCommand, "policy/edge"); !strings.Contains(stderr, "Unknown: "+unknown) {
			t.Errorf("tree without %s: %s", name, stderr)
		}
		if _, stderr, _ := h.rollout(t, "policy/edge", "--for=delivered", "--timeout=1m"); !strings.Contains(stderr, "Unknown: "+unknown) {
			t.Errorf("rollout status without %s: %s", name, stderr)
		}
	}
}

// TestSettingsArePublished: a controller writes its settings once. A restart writes nothing, other
// flags and edits by others are corrected.
func TestSettingsArePublished(t *testing.T) {
	fleet := testenv.Start(t, testenv.Options{Spaces: []string{"wds1"}})
	wds := fleet.Space(t, "wds1")
	wds.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: starling-system}}")
	write := must[*writer.Writer](t)(writer.New(wds.Config, "wds1", "test"))
	run := func(data map[string]string) (stop func()) {
		c := must[*publisher.Controller](t)(publisher.New(publisher.Config{
			WDS: wds.Config, Writer: write, Name: settings.OfBindings, Clock: clock.RealClock{},
			Data: func(context.Context) (map[string]string, error) { return data, nil },
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = c.Run(ctx) }()
		return func() { cancel(); <-ended }
	}
	expect := func(what string, data map[string]string) (version string) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			found, err := wds.Client.Resource(configMaps).Namespace(settings.Namespace).Get(t.Context(), settings.OfBindings, metav1.GetOptions{})
			if err != nil {
				return false, fmt.Sprintf("%s: %v", what, err)
			}
			got := map[string]string{}
			for key, value := range found.Object["data"].(map[string]any) {
				got[key], _ = value.(string)
			}
			version = found.GetResourceVersion()
			diff := cmp.Diff(data, got)
			return diff == "", what + " (-want +got):\n" + diff
		})
		return version
	}
	b := settings.Bindings{MaxBindingSize: corebinding.DefaultMaxSize}
	stop := run(b.Data())
	first := expect("at the start", b.Data())
	stop()
	stop = run(b.Data())
	testenv.Still(t, 500*time.Millisecond, func() string { return expect("after a restart", b.Data()) })
	if restarted := expect("after a restart", b.Data()); restarted != first {
		t.Errorf("a restart wrote it: version %s became %s", first, restarted)
	}
	wds.Patch(t, configMaps, settings.Namespace, settings.OfBindings, `{"data":{"include-generated":"true"}}`)
	expect("after an edit by somebody else", b.Data())
	stop()
	b.IncludeGenerated = true
	stop = run(b.Data())
	defer stop()
	expect("with other flags", b.Data())
}
