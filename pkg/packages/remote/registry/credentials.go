package registry

import (
	"encoding/json"
	"errors"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// KeyDockerConfig is the key of a Secret of type kubernetes.io/dockerconfigjson, with what docker
// login writes.
const KeyDockerConfig = ".dockerconfigjson"

// errConfig does not quote the configuration, as the error of the parser may.
var errConfig = errors.New("the key " + KeyDockerConfig + " of the Secret is invalid: it must have the format that docker login writes")

// Credentials returns those for a repository, or for a registry, in a configuration that docker
// login writes, and whether there are any. A server in the configuration may be a host, *.domain,
// or one of these with the beginning of a path. The longest server counts.
func Credentials(config []byte, repository string) (authn.AuthConfig, bool, error) {
	var parsed struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if json.Unmarshal(config, &parsed) != nil {
		return authn.AuthConfig{}, false, errConfig
	}
	host, repositoryPath := split(repository)
	longest, found := "", false
	for server := range parsed.Auths {
		serverHost, serverPath := split(server)
		if matches, err := path.Match(serverHost, host); err != nil || !matches || strings.Count(serverHost, ".") != strings.Count(host, ".") {
			continue
		}
		if serverPath != "" && !strings.HasPrefix(repositoryPath+"/", serverPath+"/") {
			continue
		}
		if !found || len(server) > len(longest) || len(server) == len(longest) && server < longest {
			longest, found = server, true
		}
	}
	return parsed.Auths[longest], found, nil
}

// split returns the host and the path of a repository, or of a server in a docker configuration,
// with one name for Docker Hub: docker login writes its credentials for
// https://index.docker.io/v1/.
func split(server string) (host, path string) {
	server = strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
	host, path, _ = strings.Cut(strings.Trim(server, "/"), "/")
	if path == "v1" || path == "v2" { // versions of the API
		path = ""
	}
	switch host = strings.ToLower(host); host {
	case "index.docker.io", "registry-1.docker.io":
		host = "docker.io"
	}
	return host, path
}
