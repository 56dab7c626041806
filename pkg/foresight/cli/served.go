package cli

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/starlinghq/starling/pkg/core/match"
)

// served answers what a WDS serves, from one discovery. It is safe for concurrent use.
type served struct {
	discovery discovery.DiscoveryInterface

	once  sync.Once
	all   []schema.GroupResource
	known bool
}

func (s *served) discover() {
	_, lists, err := s.discovery.ServerGroupsAndResources()
	s.known = err == nil
	for _, list := range lists {
		s.add(list)
	}
}

func (s *served) add(list *metav1.APIResourceList) {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return
	}
	for i := range list.APIResources {
		s.all = append(s.all, schema.GroupResource{Group: gv.Group, Resource: list.APIResources[i].Name})
	}
}

func (s *served) of(group *string, resource string, is func(schema.GroupResource) bool) bool {
	s.once.Do(s.discover)
	for _, gr := range s.all {
		if (group == nil || *group == gr.Group) && (resource == "" || resource == gr.Resource) && is(gr) {
			return true
		}
	}
	return false
}

// Serves implements match.API.
func (s *served) Serves(group *string, resource string) (serves, known bool) {
	serves = s.of(group, resource, func(schema.GroupResource) bool { return true })
	return serves, serves || s.known
}

// Selects implements match.API.
func (s *served) Selects(group *string, resource string) bool {
	return s.of(group, resource, func(gr schema.GroupResource) bool { return !match.NeverResource(gr) })
}
