// Package chart installs one of Starling's Helm charts in a space.
package chart

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// Release and Namespace are those of a release. A space has one chart, so they are the same for
	// all charts.
	Release   = "starling"
	Namespace = "starling-system"

	// contentLabel is a label of a release with a hash of the chart and its values: an unchanged
	// chart is not upgraded.
	contentLabel = "starling.io/chart"

	// defaultTimeout is how long Helm may take.
	defaultTimeout = time.Minute

	// history is how many releases Helm keeps.
	history = 3

	// withoutValidation: Helm validates objects only if the cluster does not (before Kubernetes
	// 1.25; ValidateBytes of k8s.io/kubectl/pkg/validation). To know that, it reads the cluster's
	// whole OpenAPI for each release, which takes most of the time of an installation.
	withoutValidation = true
)

// Chart is a chart with its values.
type Chart struct {
	// Files has the chart in the directory Name.
	Files fs.FS
	Name  string
	// Values override those of the chart. They may be nil.
	Values map[string]any
	// Timeout is how long an installation or upgrade may take. 0 is a minute.
	Timeout time.Duration
}

// Installed is what Install has installed.
type Installed struct {
	// Changed is false if this version of the chart was installed with these values already.
	Changed bool
	// Manifest has the objects of the chart in YAML.
	Manifest string
}

// Install installs or upgrades the chart in a space. It writes nothing if this version of the chart
// is installed with the same values. It repairs a release that was interrupted, so the caller must
// not install charts in one space at the same time.
func Install(ctx context.Context, config *rest.Config, c Chart) (*Installed, error) {
	if c.Files == nil {
		return nil, errors.New("this program was built without charts")
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	loaded, hash, err := load(c.Files, c.Name, c.Values)
	if err != nil {
		return nil, fmt.Errorf("load chart %q: %w", c.Name, err)
	}
	cfg, last, err := lastRelease(ctx, config)
	if err != nil {
		return nil, err
	}
	if last != nil && last.Info.Status == release.StatusDeployed && last.Labels[contentLabel] == hash {
		return &Installed{Manifest: last.Manifest}, nil
	}
	r, err := installOrUpgrade(ctx, cfg, &c, loaded, hash, last)
	if err != nil {
		return nil, fmt.Errorf("install chart %q: %w", c.Name, err)
	}
	return &Installed{Changed: true, Manifest: r.Manifest}, nil
}

// Find returns the name in the Chart.yaml of the chart whose release is in the space, or "" if
// there is none. Interrupted and failed releases count.
func Find(ctx context.Context, config *rest.Config) (string, error) {
	_, last, err := lastRelease(ctx, config)
	if err != nil || last == nil || last.Info.Status == release.StatusUninstalled || last.Chart == nil {
		return "", err
	}
	return last.Chart.Name(), nil
}

// lastRelease returns Helm's configuration for a space and the last release, which is nil if there
// is none.
func lastRelease(ctx context.Context, config *rest.Config) (*action.Configuration, *release.Release, error) {
	getter, err := newGetter(config)
	if err != nil {
		return nil, nil, err
	}
	cfg := &action.Configuration{}
	debug := klog.FromContext(ctx).V(4)
	err = cfg.Init(getter, Namespace, "secret", func(format string, v ...any) {
		debug.Info("Helm", "message", fmt.Sprintf(format, v...))
	})
	if err != nil {
		return nil, nil, err
	}
	last, err := cfg.Releases.Last(Release)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil, fmt.Errorf("get Helm release %q: %w", Release, err)
	}
	if err != nil {
		last = nil
	}
	return cfg, last, nil
}

func installOrUpgrade(
	ctx context.Context, cfg *action.Configuration, c *Chart, loaded *chart.Chart, hash string, last *release.Release,
) (*release.Release, error) {
	labels := map[string]string{contentLabel: hash}
	if last != nil && last.Info.Status.IsPending() {
		// An earlier command was interrupted. Helm would refuse to change a pending release.
		last.SetStatus(release.StatusFailed, "interrupted")
		if err := cfg.Releases.Update(last); err != nil {
			return nil, err
		}
	}
	if _, err := cfg.Releases.Deployed(Release); err == nil {
		up := action.NewUpgrade(cfg)
		up.Namespace, up.Labels, up.Timeout, up.MaxHistory, up.TakeOwnership = Namespace, labels, c.Timeout, history, true
		up.DisableOpenAPIValidation = withoutValidation
		up.ResetValues = true // otherwise Helm keeps the values of the last release if there are none now
		// A goroutine of Helm marks the release as failed if it finds that the context has ended,
		// also if it finds that after the upgrade. So this one does not end then.
		running, interrupt := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, interrupt)
		defer stop()
		return up.RunWithContext(running, Release, loaded, c.Values)
	}
	in := action.NewInstall(cfg)
	in.ReleaseName, in.Namespace, in.CreateNamespace = Release, Namespace, true
	in.Labels, in.Timeout, in.Replace, in.TakeOwnership = labels, c.Timeout, true, true
	in.DisableOpenAPIValidation = withoutValidation
	return in.RunWithContext(ctx, loaded, c.Values)
}

// load returns a chart and the hash of its files and of the values.
func load(from fs.FS, name string, values map[string]any) (*chart.Chart, string, error) {
	var files []*loader.BufferedFile
	sum := sha256.New()
	add := func(file string, data []byte) {
		fmt.Fprintf(sum, "%s %d\n", file, len(data))
		sum.Write(data)
	}
	err := fs.WalkDir(from, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, file)
		if err != nil {
			return err
		}
		relative := strings.TrimPrefix(file, name+"/")
		files = append(files, &loader.BufferedFile{Name: path.Clean(relative), Data: data})
		add(relative, data)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if len(values) > 0 {
		data, err := json.Marshal(values) // sorts the keys
		if err != nil {
			return nil, "", err
		}
		add("", data)
	}
	c, err := loader.LoadFiles(files)
	const digits = 16
	return c, hex.EncodeToString(sum.Sum(nil))[:digits], err
}
