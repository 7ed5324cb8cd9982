{{/* Refuse objects whose kind the cluster does not have; `helm template` knows of it by --api-versions. */}}
{{- define "plimsoll.monitoringApi" -}}
{{- if not (.root.Capabilities.APIVersions.Has (print "monitoring.coreos.com/v1/" .kind)) -}}
{{- fail (printf "monitoring.%s.enabled needs the kind %s of monitoring.coreos.com/v1, which this cluster does not have: install the Prometheus Operator's CRDs first, or set it to false (helm template: --api-versions monitoring.coreos.com/v1/%s)" .value .kind .kind) -}}
{{- end -}}
{{- end }}

{{/* A quantity of memory in whole bytes, without an exponent; 0 = none. Takes what values.yaml may have: "128Mi", 134217728. */}}
{{- define "plimsoll.bytes" -}}
{{- $text := ternary (printf "%.0f" (float64 .)) (toString .) (kindIs "float64" .) -}}
{{- $units := dict "" 1.0 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- printf "%.0f" (mulf (float64 (regexFind "^[0-9.]+" $text | default "0")) (index $units (regexFind "[A-Za-z]*$" $text))) -}}
{{- end }}

{{/* Prometheus refuses a scrape that may take longer than its interval. */}}
{{- define "plimsoll.scrapeTimes" -}}
{{- if gt (int .of.scrapeTimeoutSeconds) (int .of.intervalSeconds) -}}
{{- fail (printf "monitoring.%s.scrapeTimeoutSeconds is %v and intervalSeconds is %v: the timeout must not be longer; lower it or raise the interval" .value .of.scrapeTimeoutSeconds .of.intervalSeconds) -}}
{{- end -}}
{{- end }}
