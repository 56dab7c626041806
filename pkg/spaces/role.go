package spaces

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Connection connects a user to a space, with a context of a kubeconfig.
type Connection struct {
	// Name is how texts name the space: that of the context.
	Name   string
	Config *rest.Config
}

// roleExtension is the name of the extension of a context in a kubeconfig that says what its server
// is. Programs that merge kubeconfigs keep it.
const roleExtension = "starling.io"

// RoleITS is the role of a context whose server is an inventory and transport space.
const RoleITS = "its"

type role struct {
	Role string `json:"role"`
}

// MarkITS records in a context of a kubeconfig that its server is an ITS.
func MarkITS(context *clientcmdapi.Context) {
	raw, _ := json.Marshal(role{RoleITS}) // a string has no error
	if context.Extensions == nil {
		context.Extensions = map[string]runtime.Object{}
	}
	context.Extensions[roleExtension] = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
}

// MarkedITSes returns the names of the contexts that MarkITS has marked, sorted.
func MarkedITSes(config *clientcmdapi.Config) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(config.Contexts)) {
		extension, _ := config.Contexts[name].Extensions[roleExtension].(*runtime.Unknown)
		var found role
		if extension != nil && json.Unmarshal(extension.Raw, &found) == nil && found.Role == RoleITS {
			names = append(names, name)
		}
	}
	return names
}
