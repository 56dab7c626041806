package localfleet

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
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
)

const (
	// releaseName and releaseNamespace are the same as in a production installation.
	releaseName      = "starling"
	releaseNamespace = "starling-system"

	// contentLabel is a label of a release with a hash of the chart: an unchanged chart is not
	// upgraded.
	contentLabel = "starling.io/chart"

	chartTimeout = time.Minute
)

// installChart installs or upgrades one of Starling's charts in a space. It writes nothing if this
// version of the chart is installed.
func (f *Fleet) installChart(ctx context.Context, space, name string) error {
	if f.cfg.Charts == nil {
		return errors.New("this program was built without charts")
	}
	c, hash, err := loadChart(f.cfg.Charts, name)
	if err != nil {
		return fmt.Errorf("load chart %q: %w", name, err)
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
	last, err := cfg.Releases.Last(releaseName) // nil if there is none
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("get Helm release %q in space %q: %w", releaseName, space, err)
	}
	if last != nil && last.Info.Status == release.StatusDeployed && last.Labels[contentLabel] == hash {
		return nil
	}
	if err := installOrUpgrade(ctx, cfg, c, hash, last); err != nil {
		return fmt.Errorf("install chart %q in space %q: %w", name, space, err)
	}
	return nil
}

func installOrUpgrade(ctx context.Context, cfg *action.Configuration, c *chart.Chart, hash string, last *release.Release) error {
	labels := map[string]string{contentLabel: hash}
	if last != nil && last.Info.Status.IsPending() {
		// An earlier command was interrupted. Helm would refuse to change a pending release.
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

// loadChart returns a chart and the hash of its files.
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

// helmGetter gives Helm clients of a space.
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
	kubeconfig := clientcmdapi.NewConfig()
	f.addContext(kubeconfig, space, f.certificate(space, "admin"))
	return &helmGetter{
		config:     cfg,
		kubeconfig: clientcmd.NewNonInteractiveClientConfig(*kubeconfig, space, &clientcmd.ConfigOverrides{}, nil),
		discovery:  memory.NewMemCacheClient(client),
	}, nil
}

// ToRESTConfig implements genericclioptions.RESTClientGetter.
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
