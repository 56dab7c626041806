package rights

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// event is what counts of an event of an audit log.
type event struct {
	Verb string `json:"verb"`
	User struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	ObjectRef *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

// use returns what an identity was allowed to do, or false if the event is of no interest.
func (e *event) use(space string) (Right, bool) {
	identity := identify(e.User.Username, e.User.Groups)
	if identity == "" || e.ObjectRef == nil || e.Annotations["authorization.k8s.io/decision"] != "allow" {
		return Right{}, false
	}
	u := Right{
		Space: space, Identity: identity, Verb: e.Verb, Namespace: e.ObjectRef.Namespace,
		Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Name: e.ObjectRef.Name,
	}
	if e.ObjectRef.Subresource != "" {
		u.Resource += "/" + e.ObjectRef.Subresource
	}
	return u, true
}

// identify returns the identity of a user, or "" if Starling gives it no rights.
func identify(user string, groups []string) string {
	if name, ok := strings.CutPrefix(user, "system:serviceaccount:starling-system:"); ok {
		return name
	}
	for _, group := range groups {
		if cluster, ok := strings.CutPrefix(group, "system:open-cluster-management:cluster:"); ok && strings.HasSuffix(cluster, ":addon:addon-status") {
			return statusAgent
		}
	}
	return ""
}

// Read adds the uses in an audit log of a space. It drops what no rule distinguishes: namespaces
// and names that are in none.
func Read(log io.Reader, space string, granted []Right, uses map[Right]bool) error {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil // also if the server was killed while it wrote this line
		}
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			continue // the server was killed while it wrote this line, and appended to it after its restart
		}
		use, ok := e.use(space)
		if !ok {
			continue
		}
		use = reduce(use, granted)
		uses[use] = true
	}
}

// reduce removes the namespace and the name of a use unless a rule has them.
func reduce(use Right, granted []Right) Right {
	namespace, name := "", ""
	for _, g := range granted {
		if g.Space != use.Space || g.Identity != use.Identity {
			continue
		}
		if g.Namespace != "" && g.Namespace == use.Namespace {
			namespace = use.Namespace
		}
		if g.Name != "" && g.Name == use.Name {
			name = use.Name
		}
	}
	use.Namespace, use.Name = namespace, name
	return use
}

// Collect reads the audit logs of a local fleet, in its directory, and writes the uses to a file.
// The names of a fleet's spaces begin with their kind.
func Collect(fleet, config, file string) error {
	granted, err := Granted(config)
	if err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(fleet, "audit", "*.log"))
	if err != nil || len(logs) == 0 {
		return fmt.Errorf("no audit logs found in %q: %w", fleet, err)
	}
	uses := map[Right]bool{}
	for _, log := range logs {
		space := filepath.Base(log)[:len("its")]
		f, err := os.Open(log)
		if err != nil {
			return err
		}
		err = Read(f, space, granted, uses)
		f.Close()
		if err != nil {
			return fmt.Errorf("read %q: %w", log, err)
		}
	}
	data, err := json.MarshalIndent(Sorted(uses), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// Sorted returns rights in the order of their texts.
func Sorted(rights map[Right]bool) []Right {
	return slices.SortedFunc(maps.Keys(rights), func(a, b Right) int { return strings.Compare(a.String(), b.String()) })
}
