{{- /* release.labels are those of objects of the release that belong to no space. */}}
{{- define "starling.release.labels" -}}
app.kubernetes.io/name: starling
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: starling
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* controllers.selector selects the pods of all controllers of the release. */}}
{{- define "starling.controllers.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
starling.io/metrics: "true"
{{- end }}
