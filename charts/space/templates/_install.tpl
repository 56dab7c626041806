{{- /* The Job of a release installs what Starling needs in the space, and says in its log what is missing. */}}
{{- define "starling.space.install" }}
{{- $name := printf "%s-install" .space.name }}
{{- $args := merge (dict "component" "install") . }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
automountServiceAccountToken: {{ ne .space.type "hosted" }}
{{- if eq .space.type "host" }}
---
# The hosting cluster is the space: only an administrator can grant all the rights that controllers get there.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: starling:{{ .root.Release.Namespace }}:{{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: cluster-admin
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
{{- with .space.install.values }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
data:
  values.yaml: |
    {{- toYaml . | nindent 4 }}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}-{{ .root.Release.Revision }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  backoffLimit: 10
  template:
    metadata: {{- include "starling.space.pod-metadata" $args | nindent 6 }}
    spec:
      {{- include "starling.space.pod" $args | nindent 6 }}
      serviceAccountName: {{ $name }}
      restartPolicy: OnFailure
      containers:
      - name: install
        {{- include "starling.space.container" $args | nindent 8 }}
        args:
        - space
        - install
        - --type={{ .space.kind }}
        - --name={{ .space.name }}
        - --timeout={{ .space.install.timeout }}
        {{- include "starling.space.admin-flags" . | nindent 8 }}
        {{- if and (eq .space.type "hosted") (eq .space.kind "its") }}
        - --webhook-url=https://{{ .space.name }}-ocm.{{ .root.Release.Namespace }}.svc
        - --webhook-ca=/ocm/ca.crt
        {{- if .space.apiServer.url }}
        - --server-kubeconfig=/admin/kubeconfig-external
        {{- end }}
        {{- end }}
        {{- with .space.packageServer }}
        - --package-server={{ . }}
        - --package-server-ca=/package-server/ca.crt
        {{- end }}
        {{- if .space.install.values }}
        - --values=/values/values.yaml
        {{- end }}
        resources: {{- toYaml .space.jobs.resources | nindent 10 }}
        volumeMounts:
        {{- if eq .space.type "hosted" }}
        - {name: admin, mountPath: /admin, readOnly: true}
        {{- end }}
        {{- if and (eq .space.type "hosted") (eq .space.kind "its") }}
        - {name: ocm, mountPath: /ocm, readOnly: true}
        {{- end }}
        {{- if .space.packageServer }}
        - {name: package-server, mountPath: /package-server, readOnly: true}
        {{- end }}
        {{- if .space.install.values }}
        - {name: values, mountPath: /values, readOnly: true}
        {{- end }}
        - {name: tmp, mountPath: /tmp}
      volumes:
      {{- if eq .space.type "hosted" }}
      - name: admin
        {{- include "starling.space.admin" . | nindent 8 }}
          {{- if .space.apiServer.url }}
          - {key: kubeconfig-external, path: kubeconfig-external}
          {{- end }}
      {{- end }}
      {{- if and (eq .space.type "hosted") (eq .space.kind "its") }}
      - name: ocm
        secret: {secretName: {{ .space.name }}-ocm, items: [{key: ca.crt, path: ca.crt}]}
      {{- end }}
      {{- if .space.packageServer }}
      - name: package-server
        secret: {secretName: {{ .space.name }}-package-server-tls, items: [{key: ca.crt, path: ca.crt}]}
      {{- end }}
      {{- if .space.install.values }}
      - name: values
        configMap: {name: {{ $name }}}
      {{- end }}
      - name: tmp
        emptyDir: {}
{{- end }}
