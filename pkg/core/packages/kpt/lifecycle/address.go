package lifecycle

import (
	"regexp"
	"strings"
)

// userOf matches the user, and the password, of a URL.
var userOf = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*://)([^/]*)@`)

// WithoutCredentials returns the address of a repository without the user and password of a URL. An
// ssh:// URL keeps its user, which is no secret.
func WithoutCredentials(address string) string {
	m := userOf.FindStringSubmatch(address)
	if m == nil {
		return address
	}
	rest := address[len(m[0]):]
	if user, _, _ := strings.Cut(m[2], ":"); strings.EqualFold(m[1], "ssh://") {
		return m[1] + user + "@" + rest
	}
	return m[1] + rest
}
