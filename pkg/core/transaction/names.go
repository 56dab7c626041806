package transaction

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// maxName is the size of the value of a label, which the name of a transaction also is. Of longer
// names of packages only the beginning is in it.
const maxName = 63

// Version identifies one state of a package, for which there is one transaction.
type Version struct {
	APIVersion, Kind, Name string
	Generation             int64
	// Digest is the digest of the image, if it has changed without the generation: a tag that is
	// pulled always has moved. "" otherwise.
	Digest string
	// Activation identifies the change of the state of a revision by a user. "" otherwise.
	Activation string
}

// Name returns the name of the transaction for one state of a package.
func Name(v Version) string { return name(v, "") }

// NameAfterRecreation returns the name of the transaction for one state of a package of which
// another with the same name and generation existed before.
func NameAfterRecreation(v Version, uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return name(v, "-"+hex.EncodeToString(sum[:2]))
}

func name(v Version, suffix string) string {
	input := fmt.Sprintf("%s/%s/%s/gen-%d", v.APIVersion, v.Kind, v.Name, v.Generation)
	if v.Digest != "" {
		input += "/" + v.Digest[:min(len(v.Digest), 12)]
	}
	if v.Activation != "" {
		input += "/" + v.Activation
	}
	sum := sha256.Sum256([]byte(input))
	return Shorten("tx-", v.Name, "-"+hex.EncodeToString(sum[:4])+suffix)
}

// Shorten returns a name of three parts that a label can have too: of a long middle part it has
// only the beginning.
func Shorten(prefix, name, suffix string) string {
	if room := maxName - len(prefix) - len(suffix); len(name) > room {
		name = strings.TrimRight(name[:room], "-.") // "-" may not follow "."
	}
	return prefix + name + suffix
}
