package spaces_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/spaces"
)

const kubeconfigHead = `apiVersion: v1
kind: Config
current-context: other
contexts:
- {name: other, context: {cluster: other, user: u}}
- {name: its1, context: {cluster: its1, user: u}}
users:
- {name: u, user: {token: t}}
clusters:
- {name: other, cluster: {server: "http://127.0.0.1:1"}}
- {name: its1, cluster: {server: "`

func writeKubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfigHead+server+"\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func limits() spaces.Options { return spaces.Options{QPS: 5, Burst: 10} }

func TestNamedPrefersTheContextOfItsName(t *testing.T) {
	file := writeKubeconfig(t, "http://127.0.0.1:2")
	for name, wantContext := range map[string]string{"its1": "its1", "its2": ""} {
		got, err := spaces.Named{Name: name, Kubeconfig: file}.Options(limits())
		if err != nil {
			t.Fatal(err)
		}
		want := spaces.Options{Kubeconfig: file, Context: wantContext, QPS: 5, Burst: 10}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Options() of %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNamedList(t *testing.T) {
	cases := map[string]struct {
		values  []string
		wantErr bool
		want    string
	}{
		"Several":      {values: []string{"its1=/a", "its2=/b=c"}, want: "its1=/a,its2=/b=c"},
		"NoName":       {values: []string{"=/a"}, wantErr: true},
		"NoFile":       {values: []string{"its1="}, wantErr: true},
		"NoEqualsSign": {values: []string{"its1"}, wantErr: true},
		"SameName":     {values: []string{"its1=/a", "its1=/b"}, wantErr: true, want: "its1=/a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var list spaces.NamedList
			var err error
			for _, v := range tc.values {
				err = errors.Join(err, list.Set(v))
			}
			if (err != nil) != tc.wantErr {
				t.Errorf("Set() error = %v, want error: %v", err, tc.wantErr)
			}
			if got := list.String(); got != tc.want {
				t.Errorf("String() = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestSingle: the flags of KubeStellar for its only ITS do the same as --its.
func TestSingle(t *testing.T) {
	file := writeKubeconfig(t, "http://127.0.0.1:2")
	cases := map[string]struct {
		args     []string
		wantErr  string
		want     []spaces.Options
		wantHost string
	}{
		"Nothing":   {},
		"ByName":    {args: []string{"--its-name=its1", "--its-kubeconfig=" + file}, want: []spaces.Options{{Kubeconfig: file, Context: "its1"}}, wantHost: "http://127.0.0.1:2"},
		"NoName":    {args: []string{"--transport-kubeconfig=" + file}, want: []spaces.Options{{Kubeconfig: file}}, wantHost: "http://127.0.0.1:1"},
		"Context":   {args: []string{"--its-kubeconfig=" + file, "--its-context=its1"}, want: []spaces.Options{{Kubeconfig: file, Context: "its1"}}, wantHost: "http://127.0.0.1:2"},
		"OtherName": {args: []string{"--transport-kubeconfig=" + file, "--its-name=its1", "--transport-context=other"}, want: []spaces.Options{{Kubeconfig: file, Context: "other"}}, wantHost: "http://127.0.0.1:1"},
		"Overrides": {
			args:     []string{"--transport-kubeconfig=" + file, "--transport-user=u", "--transport-cluster=its1"},
			want:     []spaces.Options{{Kubeconfig: file, User: "u", Cluster: "its1"}},
			wantHost: "http://127.0.0.1:2",
		},
		"NoFile":    {args: []string{"--its-name=its1"}, wantErr: "--transport-kubeconfig is required"},
		"NoFile2":   {args: []string{"--transport-user=u"}, wantErr: "--transport-kubeconfig is required"},
		"NameTaken": {args: []string{"--its=its1=/a", "--its-name=its1", "--its-kubeconfig=" + file}, wantErr: `--its-name: duplicate name "its1"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			var list spaces.NamedList
			var single spaces.Single
			flags.Var(&list, "its", "")
			single.AddFlags(flags, "its", "transport")
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			err := single.AppendTo(&list, "transport")
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("AppendTo() = %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []spaces.Options
			for _, its := range list {
				options, err := its.Options(spaces.Options{})
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, options)
				config, err := options.Load()
				if err != nil {
					t.Fatal(err)
				}
				if config.Host != tc.wantHost {
					t.Errorf("host %q, want %q", config.Host, tc.wantHost)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConnect(t *testing.T) {
	var refuse atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse.Add(-1) >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": filepath.Base(r.URL.Path), "uid": "uid-of-" + filepath.Base(r.URL.Path)},
		})
	}))
	defer server.Close()
	options := limits()
	options.Kubeconfig, options.Context = writeKubeconfig(t, server.URL), "its1"

	space, err := spaces.Connect(t.Context(), "its1", options)
	if err != nil {
		t.Fatal(err)
	}
	if space.UID != "uid-of-kube-system" || space.Name != "its1" || space.Config.QPS != 5 {
		t.Errorf("Connect() = %+v, want UID of kube-system, name its1, QPS 5", space)
	}

	refuse.Store(1)
	if _, err := spaces.Connect(t.Context(), "its1", options); !errors.Is(err, spaces.ErrNotConnected) {
		t.Errorf("Connect() to a space that refuses: error %v, want ErrNotConnected", err)
	}

	refuse.Store(1)
	if _, err := spaces.WaitConnected(t.Context(), "its1", options); err != nil {
		t.Errorf("WaitConnected() = %v, want it to retry", err)
	}

	options.Kubeconfig = filepath.Join(t.TempDir(), "missing")
	if _, err := spaces.WaitConnected(t.Context(), "its1", options); err == nil || errors.Is(err, spaces.ErrNotConnected) {
		t.Errorf("WaitConnected() without kubeconfig: error %v, want one that is not retried", err)
	}
}

func TestWaitForResources(t *testing.T) {
	gvr := schema.GroupVersionResource{Group: "control.kubestellar.io", Version: "v1alpha1", Resource: "bindings"}
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		list := metav1.APIResourceList{GroupVersion: gvr.GroupVersion().String()}
		switch calls.Add(1) {
		case 1:
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
			return
		case 2: // the group is served, the resource not yet
		default:
			list.APIResources = []metav1.APIResource{{Name: "bindings", Kind: "Binding"}}
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	defer server.Close()
	space := &spaces.Space{Name: "wds1", Config: &rest.Config{Host: server.URL}}

	if err := spaces.WaitForResources(t.Context(), space, gvr); err != nil {
		t.Fatal(err)
	}
	if got := calls.Load(); got != 3 {
		t.Errorf("%d requests, want 3", got)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	missing := gvr
	missing.Resource = "missing"
	if err := spaces.WaitForResources(ctx, space, missing); err == nil {
		t.Error("WaitForResources() = nil for a resource that is never served, want the context's error")
	}
}
