package space

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const (
	// releaseName and releaseNamespace are those of a production installation too.
	releaseName      = "starling"
	releaseNamespace = "starling-system"

	// contentLabel of a release holds a hash of the chart, so that an unchanged chart is left alone.
	contentLabel = "starling.io/chart"

	chartTimeout = time.Minute
)

// installChart installs or upgrades one of our charts in a space. It writes nothing where the chart
// is installed as it is.
func (f *Fleet) installChart(ctx context.Context, space, name string) error {
	if f.cfg.Charts == nil {
		return errors.New("this program holds no charts")
	}
	c, hash, err := loadChart(f.cfg.Charts, name)
	if err != nil {
		return fmt.Errorf("load chart %s: %w", name, err)
	}
	getter, err := f.helmGetter(space)
	if err != nil {
		return err
	}
	cfg := &action.Configuration{}
	debug := klog.FromContext(ctx).V(4)
	err = cfg.Init(getter, releaseNamespace, "secret", func(format string, v ...any) {
		debug.Info("Helm", "message", fmt.Sprintf(format, v...))
	})
	if err != nil {
		return err
	}
	last, err := lastRelease(cfg)
	if err != nil {
		return fmt.Errorf("look for the chart in %s: %w", space, err)
	}
	deployed := last != nil && last.Info.Status == release.StatusDeployed
	if deployed && last.Labels[contentLabel] == hash {
		return nil
	}
	if err := installOrUpgrade(ctx, cfg, c, hash, last); err != nil {
		return fmt.Errorf("install chart %s in %s: %w", name, space, err)
	}
	return nil
}

func installOrUpgrade(ctx context.Context, cfg *action.Configuration, c *chart.Chart, hash string, last *release.Release) error {
	labels := map[string]string{contentLabel: hash}
	if last != nil && last.Info.Status.IsPending() {
		// An earlier run was interrupted; Helm would wait for it forever.
		last.SetStatus(release.StatusFailed, "interrupted")
		if err := cfg.Releases.Update(last); err != nil {
			return err
		}
	}
	if _, err := cfg.Releases.Deployed(releaseName); err == nil {
		up := action.NewUpgrade(cfg)
		up.Namespace, up.Labels, up.Timeout, up.MaxHistory, up.TakeOwnership = releaseNamespace, labels, chartTimeout, 3, true
		_, err := up.RunWithContext(ctx, releaseName, c, nil)
		return err
	}
	in := action.NewInstall(cfg)
	in.ReleaseName, in.Namespace, in.CreateNamespace = releaseName, releaseNamespace, true
	in.Labels, in.Timeout, in.Replace, in.TakeOwnership = labels, chartTimeout, true, true
	_, err := in.RunWithContext(ctx, c, nil)
	return err
}

// lastRelease returns the newest release, in whatever state, or nil.
func lastRelease(cfg *action.Configuration) (*release.Release, error) {
	last, err := cfg.Releases.Last(releaseName)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil //nolint:nilnil // no release is an answer
	}
	return last, err
}

// loadChart loads a chart and hashes its files.
func loadChart(from fs.FS, name string) (*chart.Chart, string, error) {
	var files []*loader.BufferedFile
	sum := sha256.New()
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
		fmt.Fprintf(sum, "%s %d\n", relative, len(data))
		sum.Write(data)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	c, err := loader.LoadFiles(files)
	const digits = 16
	return c, hex.EncodeToString(sum.Sum(nil))[:digits], err
}

// helmGetter is what Helm wants to know about a space.
type helmGetter struct {
	config     *rest.Config
	kubeconfig clientcmd.ClientConfig
	discovery  discovery.CachedDiscoveryInterface
}

func (f *Fleet) helmGetter(space string) (*helmGetter, error) {
	cfg := f.adminConfig(space)
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	kubeconfig := newConfig()
	if err := addContext(kubeconfig, space, f.serverURL(space), f.pki(space).crt("ca"), f.adminCredentials(space)); err != nil {
		return nil, err
	}
	return &helmGetter{
		config: cfg,
		kubeconfig: clientcmd.NewNonInteractiveClientConfig(*kubeconfig, space,
			&clientcmd.ConfigOverrides{Context: *kubeconfig.Contexts[space]}, nil),
		discovery: memory.NewMemCacheClient(client),
	}, nil
}

// ToRESTConfig implements genericclioptions.RESTClientGetter, as do the others.
func (g *helmGetter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient implements genericclioptions.RESTClientGetter.
func (g *helmGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

// ToRESTMapper implements genericclioptions.RESTClientGetter.
func (g *helmGetter) ToRESTMapper() (meta.RESTMapper, error) {
	return restmapper.NewDeferredDiscoveryRESTMapper(g.discovery), nil
}

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter.
func (g *helmGetter) ToRawKubeConfigLoader() clientcmd.ClientConfig { return g.kubeconfig }
