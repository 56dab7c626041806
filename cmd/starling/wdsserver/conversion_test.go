package wdsserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConversion: an object is as it was, but for its apiVersion, and says so. What it says of an
// earlier time stays; what lacks nothing is stored without that.
func TestConversion(t *testing.T) {
	for before, after := range map[string]string{
		`{"name":"a"}`:                         `{"annotations":{"starling.io/not-converted-from":"v1alpha1"},"name":"a"}`,
		`{"annotations":null,"name":"a"}`:      `{"annotations":{"starling.io/not-converted-from":"v1alpha1"},"name":"a"}`,
		`{"annotations":{"b":"c"},"name":"a"}`: `{"annotations":{"b":"c","starling.io/not-converted-from":"v1alpha1"},"name":"a"}`,
		`{"annotations":{"starling.io/not-converted-from":"v0"},"name":"a"}`: `{"annotations":{"starling.io/not-converted-from":"v0"},"name":"a"}`,
		`{"annotations":{"starling.io/not-converted-from":""},"name":"a"}`:   `{"annotations":{},"name":"a"}`,
	} {
		testConversion(t, before, after)
	}
}

func testConversion(t *testing.T, before, after string) {
	t.Helper()
	sent := `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u","desiredAPIVersion":"example.com/v1",` +
		`"objects":[{"apiVersion":"example.com/v1alpha1","kind":"Widget","metadata":` + before + `,"spec":{"size":12345678901234567890.5}}]},` +
		`"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}`
	want := `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{"uid":"u","convertedObjects":[` +
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":` + after + `,"spec":{"size":12345678901234567890.5}}],"result":{"status":"Success"}}}`
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
		t.Errorf("%s: %v (-want +got):\n%s", before, err, diff)
	}
}
