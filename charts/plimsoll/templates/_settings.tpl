{{/*
Settings files: what the chart knows better than the program's defaults (paths, names, the mode), and over it what
`settings` and `webhook.settings` say. Everything else stays the program's own default.
*/}}

{{/* Takes root and mode. */}}
{{- define "plimsoll.agentSettings" -}}
{{- $root := .root -}}
{{- $own := dict
  "act" (dict "mode" .mode "excludedNamespaces" (include "plimsoll.excludedNamespaces" $root))
  "cgroup" (dict "mount" "/host/sys/fs/cgroup")
  "clusterPauseConfigMap" (printf "%s/plimsoll" $root.Release.Namespace)
  "clusterPauseFile" "/etc/plimsoll-cluster/pause"
  "kubernetes" (dict "api" "on")
  "serving" (dict "address" "0.0.0.0" "port" $root.Values.agent.port "socket" "/run/plimsoll/agent.sock")
  "state" (dict "directory" "/var/lib/plimsoll" "ringsDirectory" "/run/plimsoll-rings")
-}}
{{- if include "plimsoll.writesCgroups" $root -}}
{{- $_ := set $own "podLimits" (dict "writeCgroups" $root.Values.podLimits.writeCgroups "qosReservedWrite" $root.Values.podLimits.qosReservedWrite) -}}
{{- end -}}
{{- if $root.Values.webhook.enabled -}}
{{- $_ := set $own "report" (dict
  "url" (printf "https://plimsoll-webhook.%s.svc" $root.Release.Namespace)
  "tokenFile" "/var/run/secrets/plimsoll/token"
  "caFile" "/var/run/secrets/plimsoll/ca.crt") -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own (deepCopy ($root.Values.settings | default dict))) -}}
{{- end }}

{{/* What agent and webhook both read must be the same to both: those sections are handed on. */}}
{{- define "plimsoll.sharedSections" -}}
recommend act guard plan workloads bounds cruise vpa crane sizing logging profile
{{- end }}

{{- define "plimsoll.webhookSettings" -}}
{{- $own := dict
  "cluster" (dict "namespace" .Release.Namespace "readsJobs" .Values.webhook.readJobs)
  "vpaObjects" (dict "enabled" .Values.webhook.vpa.enabled "publish" (ternary "enforced" "off" (eq (toString .Values.webhook.vpa.publish) "enforced")))
  "hpa" (dict "preserve" (ternary "off" (toString .Values.webhook.hpa.preserve) (eq (toString .Values.webhook.hpa.preserve) "false")))
  "act" (dict "mode" (ternary "recommend" (include "plimsoll.mode" .) (not (empty .Values.enforceNodes))) "excludedNamespaces" (include "plimsoll.excludedNamespaces" .))
  "arbiter" (dict "mode" (ternary "enforce" "recommend" .Values.evictions.enabled) "protectedNamespaces" (include "plimsoll.protectedNamespaces" .))
  "certificate" (dict "source" (ternary "built-in" "secret" (eq .Values.webhook.certificate.source "built-in")) "secret" (include "plimsoll.certificateSecret" .))
-}}
{{- if not .Values.buffers.enabled -}}{{- $_ := set $own "buffers" (dict "mode" "off") -}}{{- end -}}
{{- if .Values.webhook.prices -}}{{- $_ := set $own "cost" (dict "file" "/etc/plimsoll/prices.csv") -}}{{- end -}}
{{- $settings := .Values.settings | default dict -}}
{{- $shared := dict -}}
{{- range splitList " " (include "plimsoll.sharedSections" .) -}}
{{- if hasKey $settings . -}}{{- $_ := set $shared . (deepCopy (index $settings .)) -}}{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own $shared (deepCopy (.Values.webhook.settings | default dict))) -}}
{{- end }}

{{/* cert-manager leaves its Secret when the release goes: another name than that of the chart's own, which a later release
could not take over. */}}
{{- define "plimsoll.certificateSecret" -}}
{{- $name := ternary "plimsoll-webhook-tls" "plimsoll-webhook-certificate" (eq .Values.webhook.certificate.source "cert-manager") -}}
{{- .Values.webhook.certificate.secretName | default $name -}}
{{- end }}

{{/* For whom agents' tokens are that they send to the webhook. */}}
{{- define "plimsoll.audience" -}}
{{- dig "access" "audience" "plimsoll-webhook" (.Values.webhook.settings | default dict) -}}
{{- end }}
