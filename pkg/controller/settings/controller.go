// Package settings publishes the settings that a controller runs with.
//
// It owns one ConfigMap in Namespace starling-system of a workload definition space, which nobody
// else writes: a change by somebody else is corrected. Package core/settings says what is in it.
package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/writer"
)

// Config is what a Controller is made of. All is required.
type Config struct {
	WDS    *rest.Config
	Writer *writer.Writer
	// Name and Data are those of the ConfigMap. Data may read what does not change: after an error
	// it is called again.
	Name  string
	Data  func(context.Context) (map[string]string, error)
	Clock clock.WithTicker
}

// Controller publishes settings.
type Controller struct {
	config   Config
	informer cache.SharedIndexInformer
	queue    *worker.Queue[string]
}

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.WDS == nil || config.Writer == nil || config.Name == "" || config.Data == nil || config.Clock == nil {
		return nil, errors.New("settings: all fields of Config are required")
	}
	core, err := kubernetes.NewForConfig(config.WDS)
	if err != nil {
		return nil, fmt.Errorf("build client: %w", err)
	}
	c := &Controller{config: config}
	only := cache.NewFilteredListWatchFromClient(core.CoreV1().RESTClient(), "configmaps", settings.Namespace, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, config.Name).String()
	})
	c.informer = cache.NewSharedIndexInformer(only, &corev1.ConfigMap{}, 0, cache.Indexers{})
	c.queue = worker.New(worker.Config{Name: config.Name, Clock: config.Clock}, c.sync)
	enqueue := func(any) { c.queue.Add(config.Name) }
	if _, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, after any) { enqueue(after) }, DeleteFunc: enqueue,
	}); err != nil {
		return nil, fmt.Errorf("watch ConfigMap %s: %w", config.Name, err)
	}
	c.queue.WaitFor("configmaps", c.informer.HasSynced)
	return c, nil
}

// Run publishes the settings until the context ends. It returns when everything that it started has
// ended. What fails is retried, and is no error: the controller works as well without.
func (c *Controller) Run(ctx context.Context) error {
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		c.informer.RunWithContext(ctx)
	}()
	c.queue.Add(c.config.Name) // it may not exist
	c.queue.Run(ctx, 1)
	<-watching
	return nil
}

func (c *Controller) sync(ctx context.Context, name string) (worker.Result, error) {
	target := writer.Target{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: settings.Namespace, Name: name}
	obj, exists, err := c.informer.GetStore().GetByKey(settings.Namespace + "/" + name)
	if err != nil {
		return worker.Result{}, err
	}
	data, err := c.config.Data(ctx)
	if err != nil {
		return worker.Result{}, err
	}
	if !exists {
		_, err := c.config.Writer.Create(ctx, target, c.desired(&corev1.ConfigMap{}, data), "settings")
		return worker.Result{}, err
	}
	current, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return worker.Result{}, fmt.Errorf("the informer holds a %T", obj)
	}
	if maps.Equal(current.Data, data) {
		return worker.Result{}, nil
	}
	_, err = c.config.Writer.Update(ctx, target, c.desired(current.DeepCopy(), data), "settings")
	return worker.Result{}, err
}

// desired returns the ConfigMap with the settings.
func (c *Controller) desired(of *corev1.ConfigMap, data map[string]string) *corev1.ConfigMap {
	of.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	of.Namespace, of.Name, of.Data, of.BinaryData = settings.Namespace, c.config.Name, data, nil
	metav1.SetMetaDataLabel(&of.ObjectMeta, "app.kubernetes.io/part-of", "starling")
	return of
}
