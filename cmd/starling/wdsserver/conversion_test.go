package wdsserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConversion: an object is as it was, but for its apiVersion.
func TestConversion(t *testing.T) {
	const sent = `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u","desiredAPIVersion":"example.com/v1",` +
		`"objects":[{"apiVersion":"example.com/v1alpha1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":12345678901234567890.5}}]},` +
		`"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}`
	const want = `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{"uid":"u","convertedObjects":[` +
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":12345678901234567890.5}}],"result":{"status":"Success"}}}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://convert", strings.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	response, err := converter{}.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
