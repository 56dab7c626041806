package git

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/starlinghq/starling/pkg/packages/remote"
)

// address is the location of a repository.
type address struct {
	// text is what the user wrote.
	text   string
	scheme string // https, http, ssh or file
	host   string
	port   int // 0 is the default of the scheme
	user   string
	path   string
}

var scpLike = regexp.MustCompile(`^([^ :/@]+)@([^ :/]+):([^ ]+)$`)

// parseAddress parses spec.git.repo. File URLs must be below one of the roots. Insecure allows
// http.
func parseAddress(text string, roots []string, insecure bool) (address, error) {
	if m := scpLike.FindStringSubmatch(text); m != nil {
		return address{text: text, scheme: "ssh", user: m[1], host: m[2], path: m[3]}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return address{}, remote.Errorf(remote.InvalidSpec, "spec.git.repo: must be a URL")
	}
	a := address{text: text, scheme: u.Scheme, host: u.Hostname(), user: u.User.Username(), path: u.Path}
	if u.Port() != "" {
		if a.port, err = strconv.Atoi(u.Port()); err != nil {
			return address{}, remote.Errorf(remote.InvalidSpec, "spec.git.repo: invalid port %q", u.Port())
		}
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return address{}, remote.Errorf(remote.InvalidSpec, "spec.git.repo: must not have a query or a fragment")
	}
	switch u.Scheme {
	case "https", "ssh":
	case "http":
		if !insecure && !remote.IsLoopback(a.host) {
			return address{}, remote.Errorf(remote.InvalidSpec, "spec.git.repo: http is not encrypted, and allowed for loopback addresses only: use https, or set spec.git.insecure")
		}
	case "file":
		a.path, err = a.checkFile(roots)
		return a, err
	default:
		return address{}, remote.Errorf(remote.InvalidSpec, "spec.git.repo: must be an https://, ssh:// or file:// URL, or user@host:path")
	}
	if a.host == "" {
		return address{}, remote.Errorf(remote.InvalidSpec, "spec.git.repo: must have a host")
	}
	return a, nil
}

// checkFile refuses paths that a user of the API must not read with the rights of the controller.
// It returns the path with links resolved.
func (a *address) checkFile(roots []string) (string, error) {
	if a.host != "" && a.host != "localhost" {
		return "", remote.Errorf(remote.InvalidSpec, "spec.git.repo: a file URL must have three slashes: file:///path")
	}
	refused := remote.Errorf(remote.InvalidSpec,
		"spec.git.repo: file URLs are not allowed for this path: the flag --file-repositories of binding-controller has the allowed directories")
	if len(roots) == 0 || !filepath.IsAbs(a.path) {
		return "", refused
	}
	resolved, err := filepath.EvalSymlinks(a.path)
	if err != nil {
		resolved = filepath.Clean(a.path) // a path that does not exist is reported later, if it is allowed
	}
	allowed := slices.ContainsFunc(roots, func(root string) bool {
		if followed, err := filepath.EvalSymlinks(root); err == nil {
			root = followed
		}
		below, err := filepath.Rel(root, resolved)
		return err == nil && filepath.IsLocal(below)
	})
	if !allowed {
		return "", refused
	}
	return resolved, nil
}
