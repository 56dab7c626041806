// Package settings has the settings of controllers on which it depends what clusters get. It is
// pure.
//
// Flags set them, and each controller publishes those that are in effect as a ConfigMap in the
// workload definition space (WDS), for the commands of users: these compute what the controllers
// do, and do not know their flags.
package settings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
)

// Namespace has the ConfigMaps.
const Namespace = "starling-system"

// Names of the ConfigMaps: each is written by its controller only.
const (
	OfBindings  = "binding-controller-settings"
	OfTransport = "transport-controller-settings"
)

// Bindings are settings of the binding-controller.
type Bindings struct {
	// APIGroups are those whose objects may be workload; empty for all. CustomResourceDefinitions
	// always may.
	APIGroups []string
	// IncludeGenerated: objects that controllers create in each namespace of each cluster may be
	// workload; see match.Generated.
	IncludeGenerated bool
	// MaxBindingSize is how large a Binding becomes before another one begins, in bytes of JSON.
	MaxBindingSize int
	// PackagesUser is the user name of the controllers of packages in the WDS, as it is in
	// status.authors of PackageRevisions; "" if it is not known: they run in another process.
	PackagesUser string
}

// Transport are settings of the transport-controller.
type Transport struct {
	// ManagementNamespaces are the namespaces of Open Cluster Management to which objects may be
	// delivered.
	ManagementNamespaces []string
}

// Defaults returns the settings of controllers without flags.
func Defaults() (Bindings, Transport) {
	return Bindings{MaxBindingSize: binding.DefaultMaxSize}, Transport{}
}

// Selectable reports whether objects of a resource may be workload.
func (b *Bindings) Selectable(gr schema.GroupResource) bool {
	if match.NeverResource(gr) {
		return false
	}
	return len(b.APIGroups) == 0 || gr.Group == "apiextensions.k8s.io" || slices.Contains(b.APIGroups, gr.Group)
}

// Keys of the ConfigMaps are the names of the flags, except keyUser. Each value is JSON.
const (
	keyAPIGroups  = "api-groups"
	keyGenerated  = "include-generated"
	keySize       = "max-binding-size"
	keyUser       = "packages-user"
	keyManagement = "ocm-namespaces"
)

// Data returns the data of the ConfigMap OfBindings.
func (b *Bindings) Data() map[string]string {
	return map[string]string{
		keyAPIGroups: encode(list(b.APIGroups)), keyGenerated: strconv.FormatBool(b.IncludeGenerated), keySize: strconv.Itoa(b.MaxBindingSize),
		keyUser: encode(b.PackagesUser),
	}
}

// Data returns the data of the ConfigMap OfTransport.
func (t *Transport) Data() map[string]string {
	return map[string]string{keyManagement: encode(list(t.ManagementNamespaces))}
}

// list returns a list that is not null in JSON.
func list(of []string) []string { return append([]string{}, of...) }

func encode(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings can be encoded
	}
	return string(raw)
}

// ParseBindings reads what Bindings.Data returned.
func ParseBindings(data map[string]string) (b Bindings, err error) {
	into := map[string]any{keyAPIGroups: &b.APIGroups, keyGenerated: &b.IncludeGenerated, keySize: &b.MaxBindingSize}
	if _, there := data[keyUser]; there { // an earlier version does not publish it
		into[keyUser] = &b.PackagesUser
	}
	err = parse(data, into)
	if err == nil && b.MaxBindingSize <= 0 {
		err = fmt.Errorf("%s is %d", keySize, b.MaxBindingSize)
	}
	return b, err
}

// ParseTransport reads what Transport.Data returned.
func ParseTransport(data map[string]string) (t Transport, err error) {
	return t, parse(data, map[string]any{keyManagement: &t.ManagementNamespaces})
}

// parse reads all these keys.
func parse(data map[string]string, into map[string]any) error {
	for key, value := range into {
		if err := json.Unmarshal([]byte(data[key]), value); err != nil {
			return fmt.Errorf("read %s: %q: %w", key, data[key], err)
		}
	}
	return nil
}
