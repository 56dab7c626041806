{{- /*
What is refused before anything is changed. What only the cluster knows is checked when helm is connected to it: lookup
returns nothing in `helm template`, and in a dry run unless it is --dry-run=server.
*/}}

{{- define "starling.space.check" }}
{{- $name := .space.name }}
{{- if or (gt (len $name) 35) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) }}
{{- fail (printf "space %q: its name must be at most 35 lower case letters, digits and \"-\", and begin with a letter: names of objects begin with it" $name) }}
{{- end }}
{{- if and .space.etcd.endpoints (not .space.etcd.secret) }}
{{- fail (printf "space %q: etcd.endpoints needs etcd.secret, a Secret with ca.crt, client.crt and client.key" $name) }}
{{- end }}
{{- if and .space.restore.from (not .space.restore.id) }}
{{- fail (printf "space %q: restore.from needs restore.id, a name for this restoration that was never used" $name) }}
{{- end }}
{{- if and (eq .space.restore.from "latest") (gt (int .space.etcd.replicas) 1) }}
{{- fail (printf "space %q: restore.from must be the name of a file: the replicas of etcd must all be restored from the same backup, and \"latest\" may change" $name) }}
{{- end }}
{{- if and .space.restore.id .space.etcd.endpoints }}
{{- fail (printf "space %q: restore is for the etcd of this chart, and etcd.endpoints names another one: restore that one with its own tools" $name) }}
{{- end }}
{{- if and .space.apiServer.ingress.enabled (not .space.apiServer.ingress.host) }}
{{- fail (printf "space %q: apiServer.ingress.enabled needs apiServer.ingress.host" $name) }}
{{- end }}
{{- if eq .space.type "hosted" }}
{{- include "starling.space.check-storage" . }}
{{- include "starling.space.check-external" . }}
{{- else if eq .space.type "kubeflex" }}
{{- include "starling.space.check-control-plane" . }}
{{- end }}
{{- end }}

{{- /* check-storage refuses a change that etcd cannot follow, and a volume that no StorageClass would provide. */}}
{{- define "starling.space.check-storage" }}
{{- $name := .space.name }}
{{- $etcd := .space.etcd }}
{{- $namespace := .root.Release.Namespace }}
{{- $set := lookup "apps/v1" "StatefulSet" $namespace (printf "%s-etcd" $name) }}
{{- $server := lookup "apps/v1" "Deployment" $namespace (printf "%s-apiserver" $name) }}
{{- $external := false }}
{{- range dig "spec" "template" "spec" "volumes" (list) $server }}
{{- $external = or $external (eq .name "etcd") }}
{{- end }}
{{- if and $set $etcd.endpoints }}
{{- fail (printf "space %q: etcd.endpoints cannot be set later: the space would be empty, since its data is in its own etcd. Use another name for a new space" $name) }}
{{- else if and $external (not $etcd.endpoints) }}
{{- fail (printf "space %q: etcd.endpoints cannot be removed later: the space would be empty, since its data is there. Use another name for a new space" $name) }}
{{- else if $set }}
{{- $claim := (first $set.spec.volumeClaimTemplates).spec }}
{{- if ne (int $set.spec.replicas) (int $etcd.replicas) }}
{{- fail (printf "space %q: etcd.replicas cannot be changed later: it is %d" $name (int $set.spec.replicas)) }}
{{- end }}
{{- $class := $claim.storageClassName | default "" }}
{{- if ne $class $etcd.storage.className }}
{{- fail (printf "space %q: etcd.storage.className cannot be changed later: it is %q" $name $class) }}
{{- end }}
{{- /* Of sizes with different units, the API server knows whether they are the same. */}}
{{- $size := $claim.resources.requests.storage }}
{{- if and (ne $size $etcd.storage.size) (eq (regexFind "[A-Za-z]*$" $size) (regexFind "[A-Za-z]*$" $etcd.storage.size)) }}
{{- fail (printf "space %q: etcd.storage.size cannot be changed later: it is %s. Enlarge its PersistentVolumeClaims instead" $name $size) }}
{{- end }}
{{- else if not (or $etcd.endpoints $etcd.storage.className) }}
{{- $default := false }}
{{- range (lookup "storage.k8s.io/v1" "StorageClass" "" "").items }}
{{- $default = or $default (eq "true" (dig "metadata" "annotations" "storageclass.kubernetes.io/is-default-class" "" .)) }}
{{- end }}
{{- if and (not $default) (include "starling.connected" .) }}
{{- fail (printf "space %q: this cluster has no default StorageClass, so etcd would get no volume: set etcd.storage.className, or mark a StorageClass as the default" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* connected returns "true" if lookup finds what exists. */}}
{{- define "starling.connected" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" }}true{{ end }}
{{- end }}
