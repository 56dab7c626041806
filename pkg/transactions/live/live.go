// Package live reads CustomResourceDefinitions as the API server of a WDS has them: once for all
// steps of a try of a Transaction, which so decide by the same content. A write that is based on it
// has its resourceVersion, and fails if the object has changed since.
package live

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Reader reads from the API server. It is safe for concurrent use.
type Reader struct{ client rest.Interface }

// NewReader returns a Reader for the space that config connects to.
func NewReader(config *rest.Config) (*Reader, error) {
	config = dynamic.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/unused" // requests carry absolute paths
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build client for CustomResourceDefinitions: %w", err)
	}
	return &Reader{client}, nil
}

// Definitions returns CustomResourceDefinitions of which none is read yet.
func (r *Reader) Definitions() *Definitions {
	return &Definitions{reader: r, read: map[string]*entry{}}
}

// Definitions are CustomResourceDefinitions, each of which is read when it is first needed. They
// are kept as the JSON that the API server sent: decoded ones would need several times the memory.
// It is safe for concurrent use.
type Definitions struct {
	reader *Reader
	mutex  sync.Mutex
	read   map[string]*entry
}

type entry struct {
	mutex sync.Mutex
	known bool
	raw   []byte // nil if there is no such object
}

// Again returns the same CustomResourceDefinitions, of which none is read yet.
func (d *Definitions) Again() *Definitions { return d.reader.Definitions() }

// Object returns a CustomResourceDefinition, nil if there is none. The caller owns it.
func (d *Definitions) Object(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	raw, err := d.get(ctx, name)
	if raw == nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("decode CustomResourceDefinition %q: %w", name, err)
	}
	return o, nil
}

// Typed returns a CustomResourceDefinition, nil if there is none. The caller owns it.
func (d *Definitions) Typed(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := d.get(ctx, name)
	if raw == nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(raw, crd); err != nil {
		return nil, fmt.Errorf("decode CustomResourceDefinition %q: %w", name, err)
	}
	return crd, nil
}

func (d *Definitions) get(ctx context.Context, name string) ([]byte, error) {
	d.mutex.Lock()
	e := d.read[name]
	if e == nil {
		e = &entry{}
		d.read[name] = e
	}
	d.mutex.Unlock()
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.known {
		return e.raw, nil
	}
	result := d.reader.client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name).SetHeader("Accept", "application/json").Do(ctx)
	err := result.Error() // unlike Raw, it decodes the Status in the API server's response
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get CustomResourceDefinition %q: %w", name, err)
	}
	if err == nil {
		if e.raw, err = result.Raw(); err != nil {
			return nil, fmt.Errorf("get CustomResourceDefinition %q: %w", name, err)
		}
	}
	e.known = true
	return e.raw, nil
}
