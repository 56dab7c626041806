package spaces

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestMarkedITSes: the mark of a context is in the file, and is read from it. Extensions of other
// programs are no mark.
func TestMarkedITSes(t *testing.T) {
	config := clientcmdapi.NewConfig()
	for _, name := range []string{"wds1", "its2", "its1", "foreign", "broken"} {
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	MarkITS(config.Contexts["its1"])
	MarkITS(config.Contexts["its2"])
	config.Contexts["foreign"].Extensions = map[string]runtime.Object{"minikube": &runtime.Unknown{Raw: []byte(`{"role":"its"}`)}}
	config.Contexts["broken"].Extensions = map[string]runtime.Object{roleExtension: &runtime.Unknown{Raw: []byte(`"its"`)}}

	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	read, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"its1", "its2"}, MarkedITSes(read)); diff != "" {
		t.Errorf("marked contexts (-want +got):\n%s", diff)
	}
}
