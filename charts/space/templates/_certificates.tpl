{{- /*
The Job of a release creates certificates, and the CronJob renews them. Their rights are those on the Secrets of this
space. RBAC cannot restrict names at creation.
*/}}
{{- define "starling.space.certificates" }}
{{- $name := printf "%s-certificates" .space.name }}
{{- $args := merge (dict "component" "certificates") . }}
{{- $secrets := list "authorities" }}
{{- if eq .space.type "hosted" }}
{{- $secrets = concat $secrets (list "etcd" "apiserver" "controller-manager" "admin") }}
{{- end }}
{{- $secrets = concat $secrets (keys (include "starling.space.servers" . | fromYaml) | sortAlpha) }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
{{ include "starling.space.secret-role" (merge (dict "objectName" $name "secrets" $secrets) $args) }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}-{{ .root.Release.Revision }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  backoffLimit: 10
  template: {{- include "starling.space.certificates-pod" $args | nindent 4 }}
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  schedule: {{ .space.certificates.schedule | quote }}
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      backoffLimit: 10
      template: {{- include "starling.space.certificates-pod" $args | nindent 8 }}
{{- end }}

{{- /* servers returns the servers that the API server connects to, as a map of lists of names. */}}
{{- define "starling.space.servers" -}}
{{- $servers := deepCopy (.space.servers | default dict) }}
{{- if and (eq .space.type "hosted") (eq .space.kind "its") }}
{{- $_ := set $servers "ocm" (list (printf "%s-ocm.%s.svc" .space.name .root.Release.Namespace)) }}
{{- end }}
{{- toYaml $servers }}
{{- end }}

{{- define "starling.space.certificates-pod" -}}
metadata: {{- include "starling.space.pod-metadata" . | nindent 2 }}
spec:
  {{- include "starling.space.pod" . | nindent 2 }}
  serviceAccountName: {{ .space.name }}-certificates
  restartPolicy: OnFailure
  containers:
  - name: certificates
    {{- include "starling.space.container" . | nindent 4 }}
    args:
    - space
    - certificates
    - --space={{ .space.name }}
    - --namespace={{ .root.Release.Namespace }}
    {{- if ne .space.type "hosted" }}
    - --external
    {{- else }}
    {{- range .space.apiServer.hosts }}
    - --host={{ . }}
    {{- end }}
    {{- with .space.apiServer.ingress }}
    {{- if .enabled }}
    - --host={{ .host }}
    {{- end }}
    {{- end }}
    {{- with .space.apiServer.url }}
    - --url={{ . }}
    {{- end }}
    {{- with include "starling.space.external-secret" . }}
    - --url-secret={{ . }}
    {{- end }}
    {{- end }}
    {{- range $suffix, $names := include "starling.space.servers" . | fromYaml }}
    - --server={{ $suffix }}={{ join "/" $names }}
    {{- end }}
    resources: {{- toYaml .space.jobs.resources | nindent 6 }}
    volumeMounts:
    - {name: tmp, mountPath: /tmp}
  volumes:
  - name: tmp
    emptyDir: {}
{{- end }}

{{- /* secret-role returns a Role with the rights on Secrets SPACE-SUFFIX, and its binding to a ServiceAccount. */}}
{{- define "starling.space.secret-role" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .objectName }}
  labels: {{- include "starling.space.labels" . | nindent 4 }}
rules:
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames:
  {{- range .secrets }}
  - {{ $.space.name }}-{{ . }}
  {{- end }}
  verbs: [get, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .objectName }}
  labels: {{- include "starling.space.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .objectName }}
subjects:
- kind: ServiceAccount
  name: {{ .objectName }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
