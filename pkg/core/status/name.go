package status

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// ReportName returns the name of the WorkStatus of an object, which is the same in each mailbox: a
// readable part, and a hash of the whole identity. The name is valid even if the object's name is
// long or has characters that the name of a WorkStatus must not have (RBAC's colons), and it is
// unique.
func ReportName(ref objref.Ref) string {
	const readable = 42 // with the hash 63, so that the name may also be a label's value
	var b strings.Builder
	for _, r := range strings.ToLower(ref.Resource + "-" + ref.Name) {
		if b.Len() == readable {
			break
		}
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-") + "-" + hashOf(ref)
}

// hashOf returns the hash in the name of a WorkStatus.
func hashOf(ref objref.Ref) string {
	// Names of groups, resources, namespaces and objects contain no NUL.
	sum := sha256.Sum256([]byte(strings.Join([]string{ref.Group, ref.Resource, ref.Namespace, ref.Name}, "\x00")))
	const hashed = 12 // bytes: 96 bits, 20 characters
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:hashed]))
}
