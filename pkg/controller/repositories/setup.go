package repositories

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/content"
	"github.com/starlinghq/starling/pkg/packages"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/repository"
	"github.com/starlinghq/starling/pkg/repository/git"
	"github.com/starlinghq/starling/pkg/repository/oci"
	"github.com/starlinghq/starling/pkg/write"
)

// Required are the resources that the WDS must serve beside those of package packagewatch.
var Required = []schema.GroupVersionResource{storev1alpha1.PackageNumbers, storev1alpha1.ContentChunks}

// SetupConfig is what Setup needs.
type SetupConfig struct {
	// WDS leads to the WDS, WDSName is what metrics call it.
	WDS     *rest.Config
	WDSName string
	// Watch is that of Config.
	Watch *packagewatch.Informers
	// FileRoots are directories below which file URLs may lead.
	FileRoots []string
	// TempDir is where git's objects are kept while they are read; empty is the system's.
	TempDir string
	// MinInterval is that of Config.
	MinInterval time.Duration
	// Reached is that of Config.
	Reached func(point string)
}

// Setup builds a Controller on a WDS. It talks to nobody yet. One replica of it may run at a time: it goes under a lease.
func Setup(s SetupConfig) (*Controller, error) {
	secrets, err := newSecretInformer(s.WDS)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfig(s.WDS)
	if err != nil {
		return nil, fmt.Errorf("build client for Secrets: %w", err)
	}
	writer, err := write.New(s.WDS, s.WDSName, "starling-"+Name)
	if err != nil {
		return nil, err
	}
	files, err := content.New(s.WDS, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	numbers, err := packages.NewReserver(s.WDS)
	if err != nil {
		return nil, err
	}
	return New(Config{
		Watch: s.Watch, Secrets: secrets,
		Secret: func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
			secret, err := typed.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return secret.Data, nil
		},
		Open: func(spec *configv1alpha1.RepositorySpec, secret map[string][]byte) (Remote, error) {
			return openRemote(spec, secret, s.FileRoots, s.TempDir)
		},
		Content: files, Numbers: numbers, Writer: writer, Clock: clock.RealClock{}, MinInterval: s.MinInterval, Reached: s.Reached,
	})
}

// newSecretInformer returns an informer that knows of each Secret that it is there and has changed, and nothing of what it holds.
func newSecretInformer(config *rest.Config) (cache.SharedIndexInformer, error) {
	const never time.Duration = 0
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build metadata client: %w", err)
	}
	secrets := metadataClient.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	// Those are many, and no credentials of repositories.
	const others = "type!=kubernetes.io/service-account-token,type!=helm.sh/release.v1"
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = others
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = others
			return secrets.Watch(ctx, o)
		},
	}, &metav1.PartialObjectMetadata{}, never, cache.Indexers{})
	err = informer.SetTransform(func(obj any) (any, error) {
		if secret, ok := obj.(*metav1.PartialObjectMetadata); ok {
			return &metav1.PartialObjectMetadata{TypeMeta: secret.TypeMeta, ObjectMeta: metav1.ObjectMeta{
				Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
			}}, nil
		}
		return obj, nil
	})
	return informer, err
}

// openRemote opens what a Repository leads to.
func openRemote(spec *configv1alpha1.RepositorySpec, secret map[string][]byte, roots []string, temp string) (Remote, error) {
	switch {
	case spec.Type == configv1alpha1.RepositoryTypeGit && spec.Git != nil:
		opened, err := git.Open(git.Options{
			Repo: spec.Git.Repo, Branch: spec.Git.Branch, CreateBranch: spec.Git.CreateBranch, Directory: spec.Git.Directory,
			Author: spec.Git.Author, Email: spec.Git.Email, Secret: secret, FileRoots: roots, Limits: repository.DefaultLimits(), TempDir: temp,
		})
		if err != nil {
			return nil, err
		}
		return opened, nil
	case spec.Type == configv1alpha1.RepositoryTypeOCI && spec.Oci != nil:
		opened, err := oci.Open(oci.Options{Registry: spec.Oci.Registry, Packages: spec.Oci.Packages, Secret: secret, Limits: repository.DefaultLimits()})
		if err != nil {
			return nil, err
		}
		return opened, nil
	}
	return nil, repository.Errorf(repository.InvalidSpec, "spec.type %q is none that can be read", spec.Type)
}
