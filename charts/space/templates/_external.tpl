{{- /*
The certificate for the names that clients outside use, if it is not of the authority of the space. The API server has
both: inside of the hosting cluster it shows its own, which clients of the space verify with the authority of the space.
*/}}

{{- /* external-secret returns the Secret with that certificate, or nothing. */}}
{{- define "starling.space.external-secret" -}}
{{- $certificate := .space.apiServer.certificate }}
{{- if $certificate.issuer.name }}
{{- $certificate.secret | default (printf "%s-external" .space.name) }}
{{- else }}
{{- $certificate.secret }}
{{- end }}
{{- end }}

{{- /* external-names returns the names that clients outside use, separated by commas. */}}
{{- define "starling.space.external-names" -}}
{{- $api := .space.apiServer }}
{{- $names := list }}
{{- with $api.url }}
{{- $names = append $names (urlParse .).hostname }}
{{- end }}
{{- if $api.ingress.enabled }}
{{- $names = append $names $api.ingress.host }}
{{- end }}
{{- join "," (uniq $names) }}
{{- end }}

{{- define "starling.space.check-external" }}
{{- if include "starling.space.external-secret" . }}
{{- $names := include "starling.space.external-names" . }}
{{- if not $names }}
{{- fail (printf "space %q: apiServer.certificate is for the names in apiServer.url and apiServer.ingress.host: set one of them" .space.name) }}
{{- end }}
{{- range splitList "," $names }}
{{- if regexMatch "^[0-9.]+$|:" . }}
{{- fail (printf "space %q: apiServer.certificate needs DNS names, since a client that connects to address %s does not say which certificate it expects" $.space.name .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "starling.space.external" }}
{{- $name := printf "%s-external" .space.name }}
{{- $secret := include "starling.space.external-secret" . }}
{{- $args := merge (dict "component" "certificates") . }}
{{- with .space.apiServer.certificate.issuer }}
{{- if .name }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  secretName: {{ $secret }}
  dnsNames: {{- include "starling.space.external-names" $ | splitList "," | toYaml | nindent 2 }}
  usages: [digital signature, server auth]
  privateKey: {algorithm: ECDSA, rotationPolicy: Always}
  issuerRef:
    name: {{ .name }}
    kind: {{ .kind }}
    group: {{ .group }}
{{- end }}
{{- end }}
---
# The authority in it is that of the kubeconfig for clients outside.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
rules:
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ $secret }}]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
- kind: ServiceAccount
  name: {{ .space.name }}-certificates
  namespace: {{ .root.Release.Namespace }}
{{- end }}
