{{- /* itses returns the ITSes with all their values, as an array in YAML. */}}
{{- define "starling.itses" -}}
{{- $all := list }}
{{- include "starling.kubestellar-check" . }}
{{- range .Values.ITSes }}
{{- $accounts := dict "credentials" (dict "accounts" (list
  "binding-controller=starling-system/binding-controller"
  "transport-controller=starling-system/transport-controller"
  "status-agent-manager=starling-system/status-agent-manager")) }}
{{- $all = append $all (include "starling.entry" (dict "root" $ "entry" . "own" (mergeOverwrite (dict "kind" "its") $accounts)) | fromYaml) }}
{{- end }}
{{- include "starling.unique" . }}
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
{{- if and $server (eq .type "hosted") }}
{{- fail (printf "WDS %q: packageServer is set by the chart for type hosted: remove it" .name) }}
{{- else if eq .type "hosted" }}
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
{{- $entry := include "starling.kubestellar-entry" . | fromYaml }}
{{- $space := mergeOverwrite (deepCopy $values.space) (dict "image" $values.image "networkPolicies" $values.networkPolicies
  "metrics" (dict "serviceMonitor" $values.metrics.serviceMonitor)) }}
{{- if eq $entry.type "host" }}
{{- if eq .root.Release.Namespace "starling-system" }}
{{- fail (printf "space %q: with type host, this cluster is a space, and Starling's identities are in its namespace starling-system: install this chart in another namespace" $entry.name) }}
{{- end }}
{{- else if and (ne $entry.type "external") (or $entry.kubeconfigSecret $entry.kubeconfigKey $entry.kubeconfigNamespace) }}
{{- fail (printf "space %q: kubeconfigSecret is for type external" $entry.name) }}
{{- else if and (ne $entry.type "kubeflex") $entry.controlPlane }}
{{- fail (printf "space %q: controlPlane is for type kubeflex" $entry.name) }}
{{- else if and (eq $entry.type "external") (not $entry.kubeconfigSecret) }}
{{- fail (printf "space %q: a space of type external needs kubeconfigSecret" $entry.name) }}
{{- end }}
{{- toYaml (mergeOverwrite $space $entry .own) }}
{{- end }}

{{- /* unique refuses two entries of one name, and two that are one space. */}}
{{- define "starling.unique" }}
{{- $names := list }}
{{- $spaces := dict }}
{{- range concat .Values.ITSes .Values.WDSes }}
{{- $entry := include "starling.kubestellar-entry" (dict "entry" .) | fromYaml }}
{{- $name := $entry.name }}
{{- if has $name $names }}
{{- fail (printf "two spaces have the name %q" $name) }}
{{- end }}
{{- $names = append $names $name }}
{{- $is := "" }}
{{- if eq $entry.type "host" }}
{{- $is = "this cluster" }}
{{- else if eq $entry.type "external" }}
{{- $is = printf "the cluster of Secret \"%s/%s\"" ($entry.kubeconfigNamespace | default $.Release.Namespace) ($entry.kubeconfigSecret | default "") }}
{{- with $entry.kubeconfigKey }}
{{- $is = printf "%s, key %q" $is . }}
{{- end }}
{{- else if and (eq $entry.type "kubeflex") $entry.controlPlane }}
{{- $is = printf "ControlPlane %q" $entry.controlPlane }}
{{- end }}
{{- if hasKey $spaces $is }}
{{- fail (printf "spaces %q and %q are one, since both are %s: a space has one name and one type" (get $spaces $is) $name $is) }}
{{- else if $is }}
{{- $_ := set $spaces $is $name }}
{{- end }}
{{- end }}
{{- end }}
