package plugin

import (
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestConnected: a proposed command is for the space that the caller has asked about.
func TestConnected(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		command, context, kubeconfig string
		itses                        []string
		want                         string
	}{
		"NoFlags":        {"kubectl edit cm/a", "", "", nil, "kubectl edit cm/a"},
		"Context":        {"kubectl edit cm/a", "wds2", "", nil, "kubectl edit cm/a --context wds2"},
		"Both":           {"kubectl edit cm/a", "wds2", "/tmp/my config", nil, "kubectl edit cm/a --context wds2 --kubeconfig '/tmp/my config'"},
		"Comment":        {"kubectl annotate cm/a b-   # if it is whole", "wds2", "", nil, "kubectl annotate cm/a b- --context wds2   # if it is whole"},
		"OfTheITS":       {"kubectl --context its1 edit configmap c1", "wds2", "k", nil, "kubectl --context its1 edit configmap c1 --kubeconfig k"},
		"Plugin":         {"kubectl starling clusters", "wds2", "", []string{"its1", "its2"}, "kubectl starling clusters --context wds2 --its-context its1 --its-context its2"},
		"Transactions":   {"kubectl starling tx explain tx-1", "wds2", "", []string{"its1"}, "kubectl starling tx explain tx-1 --context wds2"},
		"Packages":       {"kubectl starling package approve a", "wds2", "", []string{"its1"}, "kubectl starling package approve a --context wds2"},
		"Pipe":           {"kubectl label cm/a b=c | kubectl starling plan -f -   # first", "wds2", "", nil, "kubectl label cm/a b=c --context wds2 | kubectl starling plan -f - --context wds2   # first"},
		"InACluster":     {"In cluster c1: kubectl get pods", "wds2", "k", nil, "In cluster c1: kubectl get pods"},
		"Sentence":       {"Wait for it again.", "wds2", "k", nil, "Wait for it again."},
		"QuoteInAContex": {"kubectl get a", "it's", "", nil, `kubectl get a --context 'it'\''s'`},
	} {
		flags := &genericclioptions.ConfigFlags{Context: &tc.context, KubeConfig: &tc.kubeconfig}
		if got := Connected(tc.command, flags, tc.itses); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
