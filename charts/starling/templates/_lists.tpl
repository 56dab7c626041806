{{- /* itses returns the ITSes with all their values, as an array in YAML. */}}
{{- define "starling.itses" -}}
{{- $all := list }}
{{- range .Values.ITSes }}
{{- $accounts := dict "credentials" (dict "accounts" (list
  "binding-controller=starling-system/binding-controller"
  "transport-controller=starling-system/transport-controller"
  "status-agent-manager=starling-system/status-agent-manager")) }}
{{- $all = append $all (include "starling.entry" (dict "root" $ "entry" . "own" (mergeOverwrite (dict "kind" "its") $accounts)) | fromYaml) }}
{{- end }}
{{- include "starling.unique" (dict "names" (concat .Values.ITSes .Values.WDSes)) }}
{{- toYaml $all }}
{{- end }}

{{- /* wdses returns the WDSes with all their values, as an array in YAML. */}}
{{- define "starling.wdses" -}}
{{- $all := list }}
{{- $names := list }}
{{- range .Values.ITSes }}
{{- $names = append $names .name }}
{{- end }}
{{- range .Values.WDSes }}
{{- $itses := .ITSes | default (compact (list .ITSName)) | default $names }}
{{- if not $itses }}
{{- fail (printf "WDS %q has no ITS: add one to ITSes" .name) }}
{{- end }}
{{- $wds := . }}
{{- range $itses }}
{{- if not (has . $names) }}
{{- fail (printf "WDS %q: ITS %q is not in the list ITSes: %s" $wds.name . (join ", " $names)) }}
{{- end }}
{{- end }}
{{- $accounts := list "binding-controller=starling-system/binding-controller" "transport-controller=starling-system/transport-controller" }}
{{- $own := dict "kind" "wds" "ITSes" $itses }}
{{- $server := .packageServer | default "" }}
{{- if eq .type "hosted" }}
{{- $server = printf "%s-package-server.%s.svc" .name $.Release.Namespace }}
{{- end }}
{{- if $server }}
{{- $accounts = append $accounts "package-server=starling-system/package-server" }}
{{- $own = mergeOverwrite $own (dict "packageServer" $server "servers" (dict "package-server-tls" (list "package-server.starling-system.svc"))) }}
{{- end }}
{{- $own = mergeOverwrite $own (dict "credentials" (dict "accounts" $accounts)) }}
{{- $all = append $all (include "starling.entry" (dict "root" $ "entry" . "own" $own) | fromYaml) }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- /* entry returns a space with all its values: those of the chart "space", of this chart, of the entry, and what follows. */}}
{{- define "starling.entry" -}}
{{- $values := .root.Values }}
{{- $space := mergeOverwrite (deepCopy $values.space) (dict "image" $values.image "networkPolicies" $values.networkPolicies
  "metrics" (dict "serviceMonitor" $values.metrics.serviceMonitor)) }}
{{- if eq .entry.type "host" }}
{{- if eq .root.Release.Namespace "starling-system" }}
{{- fail (printf "space %q: with type host, this cluster is a space, and Starling's identities are in its namespace starling-system: install this chart in another namespace" .entry.name) }}
{{- end }}
{{- else if and (eq .entry.type "external") (not .entry.kubeconfigSecret) }}
{{- fail (printf "space %q: a space of type external needs kubeconfigSecret" .entry.name) }}
{{- end }}
{{- toYaml (mergeOverwrite $space (deepCopy .entry) .own) }}
{{- end }}

{{- define "starling.unique" }}
{{- $seen := list }}
{{- range .names }}
{{- if has .name $seen }}
{{- fail (printf "two spaces have the name %q" .name) }}
{{- end }}
{{- $seen = append $seen .name }}
{{- end }}
{{- end }}
