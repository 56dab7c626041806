package client

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kyaml "sigs.k8s.io/kustomize/kyaml/openapi"
)

// Schemas reads the schemas of kinds that an API server serves, from its OpenAPI documents, which
// every authenticated user may read. It is safe for concurrent use.
type Schemas struct {
	api openapi.Client

	mu sync.Mutex
	// read are the documents by group version, with their URLs, which have a hash of the content.
	read map[string]openAPIDocument
}

type openAPIDocument struct {
	url   string
	kinds map[string]*kyaml.ResourceSchema
}

// schemasTimeout bounds each request: a merge waits for it.
const schemasTimeout = 10 * time.Second

// NewSchemas returns the schemas of an API server.
func NewSchemas(config *rest.Config) (*Schemas, error) {
	config = rest.CopyConfig(config)
	config.Timeout = schemasTimeout
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client: %w", err)
	}
	return &Schemas{api: api.OpenAPIV3(), read: map[string]openAPIDocument{}}, nil
}

// Find returns the schema of a kind, nil if the API server does not serve it. It takes one request,
// and another one if the group version is new or has changed. It must not be changed.
func (s *Schemas) Find(apiVersion, kind string) (*kyaml.ResourceSchema, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // nobody serves that
	}
	paths, err := s.api.Paths()
	if err != nil {
		return nil, fmt.Errorf("list OpenAPI documents: %w", err)
	}
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	at, served := paths[path]
	if !served {
		return nil, nil //nolint:nilnil // as documented
	}
	s.mu.Lock()
	known := s.read[path]
	s.mu.Unlock()
	if url := at.ServerRelativeURL(); known.url != url {
		raw, err := at.Schema("application/json")
		if err != nil {
			return nil, fmt.Errorf("read OpenAPI document %s: %w", path, err)
		}
		kinds, err := kindsIn(raw)
		if err != nil {
			return nil, fmt.Errorf("read OpenAPI document %s: %w", path, err)
		}
		known = openAPIDocument{url, kinds}
		s.mu.Lock()
		s.read[path] = known
		s.mu.Unlock()
	}
	return known.kinds[gv.WithKind(kind).String()], nil
}

// kindsIn returns the schemas in an OpenAPI document, by kind. Those of custom kinds have no
// references, but in their metadata.
func kindsIn(raw []byte) (map[string]*kyaml.ResourceSchema, error) {
	var document struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	kinds := map[string]*kyaml.ResourceSchema{}
	for _, text := range document.Components.Schemas {
		var of struct {
			Kinds []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		}
		if json.Unmarshal(text, &of) != nil || len(of.Kinds) != 1 { // of several: options and the like
			continue
		}
		found := &spec.Schema{}
		if err := json.Unmarshal(text, found); err != nil {
			return nil, fmt.Errorf("%s: %w", of.Kinds[0], err)
		}
		kinds[of.Kinds[0].String()] = &kyaml.ResourceSchema{Schema: found}
	}
	return kinds, nil
}
