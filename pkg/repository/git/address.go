package git

import (
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/starlinghq/starling/pkg/repository"
)

// address says where a repository is.
type address struct {
	// text is what the user wrote.
	text   string
	scheme string // https, http, ssh, file
	host   string
	port   int // 0: that of the scheme
	user   string
	path   string
}

var scpLike = regexp.MustCompile(`^([^ :/@]+)@([^ :/]+):([^ ]+)$`)

// parseAddress reads git.repo. File URLs must lead below one of the roots.
func parseAddress(text string, roots []string) (address, error) {
	if m := scpLike.FindStringSubmatch(text); m != nil {
		return address{text: text, scheme: "ssh", user: m[1], host: m[2], path: m[3]}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return address{}, repository.Errorf(repository.InvalidSpec, "spec.git.repo is no URL")
	}
	a := address{text: text, scheme: u.Scheme, host: u.Hostname(), user: u.User.Username(), path: u.Path}
	if u.Port() != "" {
		if a.port, err = strconv.Atoi(u.Port()); err != nil {
			return address{}, repository.Errorf(repository.InvalidSpec, "spec.git.repo has the port %q", u.Port())
		}
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return address{}, repository.Errorf(repository.InvalidSpec, "spec.git.repo must not have a query or a fragment")
	}
	switch u.Scheme {
	case "https", "ssh":
	case "http":
		if !loopback(a.host) {
			return address{}, repository.Errorf(repository.InvalidSpec, "spec.git.repo: http is for loopback addresses only; use https")
		}
	case "file":
		a.path, err = a.checkFile(roots)
		return a, err
	default:
		return address{}, repository.Errorf(repository.InvalidSpec, "spec.git.repo must be an https://, ssh:// or file:// URL, or user@host:path")
	}
	if a.host == "" {
		return address{}, repository.Errorf(repository.InvalidSpec, "spec.git.repo names no host")
	}
	return a, nil
}

// checkFile refuses what a user of the API must not read with the controller's rights, and returns the path with links followed.
func (a *address) checkFile(roots []string) (string, error) {
	if a.host != "" && a.host != "localhost" {
		return "", repository.Errorf(repository.InvalidSpec, "spec.git.repo: a file URL has three slashes: file:///path")
	}
	refused := repository.Errorf(repository.InvalidSpec,
		"spec.git.repo: file URLs are not allowed for this path; the flag --file-repositories of the controller names the directories that are")
	if len(roots) == 0 || !filepath.IsAbs(a.path) {
		return "", refused
	}
	resolved, err := filepath.EvalSymlinks(a.path)
	if err != nil {
		resolved = filepath.Clean(a.path) // what is not there is found not to be there later, if it may be looked for
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

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// cleanDirectory is the directory without slashes around it; "" is the whole repository.
func cleanDirectory(dir string) string { return strings.Trim(dir, "/") }
