package testenv

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/starlinghq/starling/pkg/core/settings"
)

// PublishSettings publishes in a WDS the settings of controllers, as they do themselves.
func (s *Space) PublishSettings(t testing.TB, bindings settings.Bindings, transport settings.Transport) {
	t.Helper()
	s.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+settings.Namespace+"}}")
	for name, data := range map[string]map[string]string{settings.OfBindings: bindings.Data(), settings.OfTransport: transport.Data()} {
		raw, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: %s}", name, settings.Namespace, raw))
	}
}
