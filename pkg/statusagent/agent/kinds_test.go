package agent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// TestGone: a kind is gone only if all three sources agree.
func TestGone(t *testing.T) {
	const (
		crdPath      = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
		groupPath    = "/apis/example.com"
		v1Path       = "/apis/example.com/v1"
		v2Path       = "/apis/example.com/v2"
		servicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"

		noCRD = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not found","reason":"NotFound","code":404,` +
			`"details":{"name":"widgets.example.com","group":"apiextensions.k8s.io","kind":"customresourcedefinitions"}}`
		group      = `{"kind":"APIGroup","apiVersion":"v1","name":"example.com","versions":[{"groupVersion":"example.com/v1","version":"v1"},{"groupVersion":"example.com/v2","version":"v2"}]}`
		others     = `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"gadgets"},{"name":"widgets/status"}]}`
		widgets    = `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"gadgets"},{"name":"widgets"}]}`
		noServices = `{"kind":"APIServiceList","apiVersion":"apiregistration.k8s.io/v1","items":[{"spec":{"group":"example.com"}},{"spec":{"group":"other.io","service":{"name":"s"}}}]}`
		service    = `{"kind":"APIServiceList","apiVersion":"apiregistration.k8s.io/v1","items":[{"spec":{"group":"example.com","service":{"name":"s"}}}]}`
	)
	type answer struct {
		code int
		body string
	}
	page404, unavailable := answer{404, "404 page not found"}, answer{503, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`}
	for name, tc := range map[string]struct {
		answers map[string]answer // of others it is 404
		core    bool
		want    bool
		wantErr bool
	}{
		"GroupGone":              {answers: map[string]answer{crdPath: {404, noCRD}, groupPath: page404, servicesPath: {200, noServices}}, want: true},
		"GroupServesOtherKinds":  {answers: map[string]answer{crdPath: {404, noCRD}, groupPath: {200, group}, v1Path: {200, others}, v2Path: {200, others}, servicesPath: {200, noServices}}, want: true},
		"CRDExists":              {answers: map[string]answer{crdPath: {200, `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1"}`}, groupPath: page404, servicesPath: {200, noServices}}},
		"CRDForbidden":           {answers: map[string]answer{crdPath: {403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`}, groupPath: page404, servicesPath: {200, noServices}}, wantErr: true},
		"CRDsNotServed":          {answers: map[string]answer{crdPath: page404, groupPath: page404, servicesPath: {200, noServices}}, wantErr: true},
		"Starting":               {answers: map[string]answer{crdPath: unavailable}, wantErr: true},
		"ServedInAnotherVersion": {answers: map[string]answer{crdPath: {404, noCRD}, groupPath: {200, group}, v1Path: {200, others}, v2Path: {200, widgets}, servicesPath: {200, noServices}}},
		"GroupUnavailable":       {answers: map[string]answer{crdPath: {404, noCRD}, groupPath: unavailable, servicesPath: {200, noServices}}, wantErr: true},
		"VersionUnavailable":     {answers: map[string]answer{crdPath: {404, noCRD}, groupPath: {200, group}, v1Path: {200, others}, v2Path: unavailable, servicesPath: {200, noServices}}, wantErr: true},
		"ServedByAnotherServer":  {answers: map[string]answer{crdPath: {404, noCRD}, groupPath: page404, servicesPath: {200, service}}},
		"APIServicesUnavailable": {answers: map[string]answer{crdPath: {404, noCRD}, groupPath: page404, servicesPath: unavailable}, wantErr: true},
		"Core":                   {core: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				given, ok := tc.answers[r.URL.Path]
				if !ok {
					given = page404
				}
				if given != page404 {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(given.code)
				_, _ = w.Write([]byte(given.body))
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL}
			objects, err := dynamic.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			s, err := newServed(config, objects)
			if err != nil {
				t.Fatal(err)
			}
			gr := schema.GroupResource{Group: "example.com", Resource: "widgets"}
			if tc.core {
				gr.Group = ""
			}
			got, err := s.gone(t.Context(), gr)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("gone: %t, %v; want %t, error %t", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestKinds(t *testing.T) {
	widgets := dynamicinformer.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}}
	gr := widgets.GroupResource()
	wanted := func(k *kinds) int {
		return len(k.withoutGone(map[schema.GroupResource]dynamicinformer.Resource{gr: widgets}))
	}
	k := newKinds()
	k.failed(widgets, errors.New("connection refused"))
	if len(k.open()) != 0 {
		t.Error("doubted because of an error that says nothing")
	}
	k.failed(widgets, apierrors.NewNotFound(gr, ""))
	if len(k.open()) != 1 || k.isGone(gr) || wanted(k) != 1 {
		t.Error("not just doubted")
	}
	if k.set(gr, false) || len(k.open()) != 0 {
		t.Error("a doubt that was wrong changed something")
	}
	k.failed(widgets, apierrors.NewNotFound(gr, ""))
	if !k.set(gr, true) || !k.isGone(gr) || wanted(k) != 0 || len(k.open()) != 1 {
		t.Error("not gone, or not asked about any more")
	}
	if k.set(gr, true) {
		t.Error("gone again")
	}
	if !k.set(gr, false) || k.isGone(gr) || wanted(k) != 1 || len(k.open()) != 0 {
		t.Error("not back")
	}
}
