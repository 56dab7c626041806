package redact

import (
	"encoding/base64"
	"regexp"
	"strings"
	"unicode/utf8"
)

// whole are texts that are removed as a whole: objects inside of a text, whose secrets can be
// anywhere in it.
var whole = []*regexp.Regexp{
	// A Secret in YAML or JSON, also in JSON inside of JSON, whose quotes are escaped.
	regexp.MustCompile(`(?i)kind[\\"']*\s*:\s*[\\"']*Secret(List)?\b`),
	// A kubeconfig.
	regexp.MustCompile(`(?i)(client-key-data|client-certificate-data|current-context)[\\"']*\s*:`),
	// Credentials of a registry.
	regexp.MustCompile(`(?i)[\\"']auths[\\"']+\s*:`),
	// A private key, also one whose end is missing.
	regexp.MustCompile(`-{5}BEGIN [A-Z ]*PRIVATE KEY`),
}

// parts are what is removed of a text. Each expression keeps what its first group matches.
var parts = []*regexp.Regexp{
	// A token of a ServiceAccount, or another JSON Web Token.
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)*`),
	regexp.MustCompile(`(?i)((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}`),
	// The user and the password of a URL.
	regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"'@]+@`),
	// A bootstrap token.
	regexp.MustCompile(`()\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
	// password=x, "token": "x", --client-secret x, as in flags, queries and JSON.
	regexp.MustCompile(`(?i)((?:password|passwd|passphrase|token|secret|api-?_?key|private-?_?key|credentials?)[\\"']*\s*[=:]\s*[\\"']*)[^\s"'&,;\\]+`),
}

// encoded is text that may be base64, in one of its alphabets.
var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{16,}={0,2}`)

// depth is how often text is decoded that contains encoded text. Beyond, it is removed.
const depth = 3

// Text returns text without credentials.
func Text(text string) string { return redacted(text, depth) }

// Log returns the lines of a log without credentials. An object that one line of it has is removed
// with that line.
func Log(log string) string {
	var out strings.Builder
	key := false
	for line := range strings.Lines(log) {
		switch {
		case key: // a private key has several lines
			key = !strings.Contains(line, "-----END")
		default:
			text := Text(strings.TrimSuffix(line, "\n"))
			key = text == Removed && strings.Contains(line, "-----BEGIN") && !strings.Contains(line, "-----END")
			out.WriteString(text + "\n")
		}
	}
	return out.String()
}

func redacted(text string, depth int) string {
	for _, r := range whole {
		if r.MatchString(text) {
			return Removed
		}
	}
	for _, r := range parts {
		text = r.ReplaceAllString(text, "${1}"+Removed)
	}
	return encoded.ReplaceAllStringFunc(text, func(part string) string {
		decoded, ok := decode(part)
		if !ok {
			return part
		}
		if depth == 0 || redacted(decoded, depth-1) != decoded {
			return Removed
		}
		return part
	})
}

// decode returns the text that is encoded in base64. It returns false if there is none.
func decode(part string) (string, bool) {
	part = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(part, "="))
	decoded, err := base64.RawStdEncoding.DecodeString(part)
	if err != nil && len(part)%4 == 1 { // something that is no base64 begins or ends it
		decoded, err = base64.RawStdEncoding.DecodeString(part[:len(part)-1])
	}
	return string(decoded), err == nil && utf8.Valid(decoded)
}
