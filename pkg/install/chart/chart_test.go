package chart

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/starlinghq/starling/charts"
)

// files returns a chart with one ConfigMap.
func files(data string) fstest.MapFS {
	return fstest.MapFS{
		"it/Chart.yaml":        {Data: []byte("{apiVersion: v2, name: starling-it, version: 0.1.0}")},
		"it/values.yaml":       {Data: []byte("key: value")},
		"it/templates/it.yaml": {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: it}, data: {key: {{ .Values.key }}, more: " + data + "}}")},
		"other/Chart.yaml":     {Data: []byte("{apiVersion: v2, name: starling-other, version: 0.1.0}")},
	}
}

func TestHash(t *testing.T) {
	hash := func(from fstest.MapFS, values map[string]any) string {
		c, hash, err := load(from, "it", values)
		if err != nil {
			t.Fatal(err)
		}
		if c.Name() != "starling-it" {
			t.Errorf("the chart is %q", c.Name())
		}
		return hash
	}
	first := hash(files("a"), nil)
	other := files("a")
	other["other/values.yaml"] = &fstest.MapFile{Data: []byte("x: y")}
	for name, got := range map[string]string{"again": hash(files("a"), nil), "empty values": hash(files("a"), map[string]any{}), "another chart": hash(other, nil)} {
		if got != first {
			t.Errorf("%s: the hash is %s, want %s", name, got, first)
		}
	}
	renamed := maps.Clone(files("a"))
	renamed["it/templates/is.yaml"] = renamed["it/templates/it.yaml"]
	delete(renamed, "it/templates/it.yaml")
	for name, got := range map[string]string{
		"content": hash(files("b"), nil), "values": hash(files("a"), map[string]any{"key": "v"}), "name": hash(renamed, nil),
	} {
		if got == first {
			t.Errorf("another %s has the same hash", name)
		}
	}
	if _, _, err := load(files("a"), "missing", nil); err == nil {
		t.Error("a missing chart was loaded")
	}
}

func TestChartsLoad(t *testing.T) {
	for name, want := range map[string]string{"wds": "starling-wds", "its": "starling-its"} {
		c, _, err := load(charts.FS, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.Name() != want {
			t.Errorf("chart %q is called %q, want %q", name, c.Name(), want)
		}
	}
}

// TestEndAfterUpgrade: a context that ends after an upgrade does not make the release a failed one.
func TestEndAfterUpgrade(t *testing.T) {
	c := &Chart{Files: files("a"), Name: "it", Timeout: defaultTimeout}
	loaded, hash, err := load(c.Files, c.Name, c.Values)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 { // Helm's goroutine is late once in some dozens of times
		synctest.Test(t, func(t *testing.T) {
			cfg := &action.Configuration{
				Releases: storage.Init(driver.NewMemory()), KubeClient: &kubefake.FailingKubeClient{},
				Capabilities: chartutil.DefaultCapabilities, Log: func(string, ...any) {},
			}
			last := &release.Release{Name: Release, Namespace: Namespace, Version: 1, Chart: loaded, Info: &release.Info{Status: release.StatusDeployed}}
			if err := cfg.Releases.Create(last); err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			_, err := installOrUpgrade(ctx, cfg, c, loaded, hash, last)
			end()
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got, err := cfg.Releases.Last(Release); err != nil || got.Info.Status != release.StatusDeployed {
				t.Fatalf("the release is %s: %s (%v)", got.Info.Status, got.Info.Description, err)
			}
		})
	}
}

// TestReleases installs and upgrades with Helm's storage in memory, from each state in which a
// command may have left the last release.
func TestReleases(t *testing.T) {
	for name, tc := range map[string]struct {
		last        release.Status // of a second release, after one that was deployed
		first       release.Status // of the only release
		wantVersion int
	}{
		"none":                {wantVersion: 1},
		"deployed":            {first: release.StatusDeployed, wantVersion: 2},
		"install failed":      {first: release.StatusFailed, wantVersion: 2},
		"install interrupted": {first: release.StatusPendingInstall, wantVersion: 2},
		"upgrade interrupted": {first: release.StatusDeployed, last: release.StatusPendingUpgrade, wantVersion: 3},
		"upgrade failed":      {first: release.StatusDeployed, last: release.StatusFailed, wantVersion: 3},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &action.Configuration{
				Releases: storage.Init(driver.NewMemory()), KubeClient: &kubefake.FailingKubeClient{},
				Capabilities: chartutil.DefaultCapabilities, Log: t.Logf,
			}
			c := &Chart{Files: files("a"), Name: "it", Timeout: defaultTimeout}
			loaded, hash, err := load(c.Files, c.Name, c.Values)
			if err != nil {
				t.Fatal(err)
			}
			var last *release.Release
			for i, status := range []release.Status{tc.first, tc.last} {
				if status == "" {
					continue
				}
				last = &release.Release{
					Name: Release, Namespace: Namespace, Version: i + 1, Chart: loaded, Info: &release.Info{Status: status},
					Config: map[string]any{"key": "of the last release"},
				}
				if err := cfg.Releases.Create(last); err != nil {
					t.Fatal(err)
				}
			}
			got, err := installOrUpgrade(t.Context(), cfg, c, loaded, hash, last)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Manifest, "key: value") {
				t.Errorf("it has not the values of the chart: %s", got.Manifest)
			}
			if got.Version != tc.wantVersion || got.Info.Status != release.StatusDeployed || got.Labels[contentLabel] != hash {
				t.Errorf("version %d is %s with hash %s, want version %d deployed with hash %s",
					got.Version, got.Info.Status, got.Labels[contentLabel], tc.wantVersion, hash)
			}
		})
	}
}
