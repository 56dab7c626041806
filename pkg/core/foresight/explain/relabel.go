package explain

import (
	"fmt"
	"strings"

	"github.com/starlinghq/starling/pkg/core/text"
)

// relabel returns the command that changes labels, after one that shows what that would change in
// all clusters: other policies may select by the same labels, or by those that it replaces. A label
// that has another value is only overwritten by a command that says so.
func relabel(command, plan string, has map[string]string, change []string) []string {
	var replaced []string
	for _, one := range change {
		key, value, sets := strings.Cut(one, "=")
		if old, is := has[key]; sets && is && old != value {
			replaced = append(replaced, key+"="+old)
		}
	}
	if len(replaced) > 0 {
		const most = 3
		command += " --overwrite   # it replaces " + text.List(replaced, most)
	}
	return []string{plan + "   # what the next command would change", command}
}

// relabelInWDS is relabel for an object of the WDS.
func relabelInWDS(object, namespace string, has map[string]string, change []string) []string {
	command := fmt.Sprintf("kubectl label %s %s", object, strings.Join(change, " "))
	if namespace != "" {
		command += " --namespace " + namespace
	}
	return relabel(command, command+" --overwrite --dry-run=server --output yaml | kubectl starling plan -f -", has, change)
}
