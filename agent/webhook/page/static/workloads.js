// The screens Workloads and Workload: who asks for too much, who is short, and everything behind one answer.
import {html, useMemo} from "./base.js";
import {pathOf, query} from "./client.js";
import {ABSENT, age, ago, amount, count, cpu, memory, quantity} from "./figures.js";
import {Ago, Answered, Bar, BarKey, Choice, Command, Exports, FilterBox, Notice, Outcome, Pages, Price, Scope, SEVERITIES, Severity, Table, actionWords, allOf, changeWords, command} from "./parts.js";
import {History} from "./plots.js";
import {change, to} from "./route.js";

const PAGE = 200;
const RESOURCES = {
  cpu: {name: "CPU", requested: "requestedMillicores", recommended: "recommendedMillicores", used: "usedP95Millicores", unit: "Millicores"},
  memory: {name: "Memory", requested: "requestedBytes", recommended: "recommendedBytes", used: "usedP95Bytes", unit: "Bytes"},
};

export function Sized({resource, hour}) {
  if (!hour) return html`<span class="dim">no hour yet</span>`;
  const keys = RESOURCES[resource];
  const [requested, recommended, used] = [hour[resource][keys.requested], hour[resource][keys.recommended], hour[resource][keys.used]];
  return html`<span class="sized">
    <span>${amount(resource, requested)} <span class="dim">→</span> <b>${amount(resource, recommended)}</b></span>
    <${Bar} resource=${resource} used=${used} requested=${requested} recommended=${recommended} />
    <small class="dim">used ${amount(resource, used)}</small>
  </span>`;
}

const hourField = (resource, key) => (row) => row.hour?.[resource][key] ?? null;
const WORKLOAD_FIELDS = {
  namespace: (row) => row.namespace,
  kind: (row) => row.kind,
  name: (row) => row.name,
  severity: (row) => row.severity,
  severityWords: (row) => row.severityWords,
  mode: (row) => row.mode,
  policy: (row) => row.policy,
  pods: (row) => row.replicas,
  ...Object.fromEntries(
    Object.entries({cpu: ["written", "requested", "recommended", "usedMean", "usedP95"], memory: ["written", "requested", "recommended", "usedMean", "usedP95"]}).flatMap(([resource, names]) =>
      names.map((name) => {
        const key = `${name}${RESOURCES[resource].unit}`;
        return [`${resource}_${name}${RESOURCES[resource].unit}`, hourField(resource, key)];
      })
    )
  ),
  ...Object.fromEntries(["costMonth", "freedMonth", "possibleMonth", "neededMonth", "isListPrice"].map((name) => [name, (row) => row.cost?.[name] ?? null])),
  killsWeek: (row) => row.killsWeek,
  lastAction: (row) => row.lastAction?.action ?? null,
  lastActionAgeSeconds: (row) => row.lastAction?.ageSeconds ?? null,
  newestAgeSeconds: (row) => row.newestAgeSeconds,
};

const SORTS = [
  ["short", "short first"],
  ["name", "name"],
  ["cpu-possible", "CPU to free"],
  ["memory-possible", "memory to free"],
  ["cpu-requested", "CPU requested"],
  ["memory-requested", "memory requested"],
  ["cpu-used", "CPU used"],
  ["memory-used", "memory used"],
  ["cost", "dearest first"],
  ["cost-possible", "money to free"],
  ["kills", "kills"],
];

// Nothing is told of what comes to no money.
const isSome = (text) => Number(text) !== 0;

function CostCell({cost, pricing}) {
  if (!cost) return html`<span class="dim">${ABSENT}</span>`;
  const price = (text) => html`<${Price} text=${text} pricing=${pricing} isList=${cost.isListPrice} />`;
  return html`<b>${price(cost.costMonth)}</b>
    ${isSome(cost.possibleMonth) && html`<small class="dim">▽ ${price(cost.possibleMonth)} to free</small>`}
    ${isSome(cost.neededMonth) && html`<small class="dim">▲ ${price(cost.neededMonth)} needed</small>`}`;
}

const pricingWords = (pricing) =>
  pricing?.fault ? ` No money: ${pricing.fault}.` : pricing ? ` Money is for a month of ${pricing.monthHours} hours, by what pods request now.${pricing.listPriceNote ? ` * ${pricing.listPriceNote}.` : ""}` : "";

function WorkloadWorth({cost, pricing}) {
  if (!pricing) return null;
  if (!cost) return html`<p class="empty">${pricing.fault ? `Not known: ${pricing.fault}.` : "None of its pods runs on a node that has a price."}</p>`;
  const tile = (title, text, words, kind) => html`<div class=${`tile ${kind}`}><h3>${title}</h3><p class="big"><${Price} text=${text} pricing=${pricing} isList=${cost.isListPrice} /></p><p class="dim">${words}</p></div>`;
  return html`<div class="tiles">
      ${tile("Requested now", cost.costMonth, `a month, ${count(cost.pods, "pod", "pods")}`, "")}
      ${tile("✓ Freed", cost.freedMonth, "written, and requested no more", "good")}
      ${tile("▽ Still possible", cost.possibleMonth, "requested, and not needed", "some")}
      ${tile("▲ Needed", cost.neededMonth, "not requested, and needed: never set off against the others", "bad")}
    </div>
    <p class="dim">CPU <${Price} text=${cost.cpuMonth} pricing=${pricing} isList=${cost.isListPrice} />, memory <${Price} text=${cost.memoryMonth} pricing=${pricing} isList=${cost.isListPrice} />.${pricingWords(pricing)}${cost.podsWithoutAdvice ? ` ${count(cost.podsWithoutAdvice, "pod has", "pods have")} no advice yet and ${cost.podsWithoutAdvice === 1 ? "counts as it is" : "count as they are"}.` : ""}</p>`;
}

export function Workloads({route}) {
  const asked = (name) => route.query.get(name) || null;
  const sort = asked("sort") ?? "short";
  const isReversed = asked("reverse") === "true";
  const filters = {q: asked("q"), namespace: asked("namespace"), severity: asked("severity"), mode: asked("mode"), kind: asked("kind"), sort, reverse: isReversed ? "true" : null};
  const path = query("/v1/workloads", {...filters, limit: PAGE, after: asked("after")});
  const onSort = (name) => change(name === sort ? {reverse: isReversed ? null : "true", after: null} : {sort: name, reverse: null, after: null});
  const isFiltered = ["q", "namespace", "severity", "mode", "kind"].some((name) => filters[name]);
  const columnsOf = (pricing) => [
    {name: "State", left: true, sort: "short", cell: (row) => html`<${Severity} name=${row.severity} words=${row.severityWords} />`},
    {
      name: "Workload", left: true, sort: "name", kind: "name",
      cell: (row) => html`<a href=${to("workloads", [row.namespace, row.kind, row.name])} data-row="yes">${row.namespace}/<b>${row.name}</b></a><small class="dim">${row.kind}${row.severityWords ? `, ${row.severityWords}` : ""}</small>`,
    },
    {name: "Mode", left: true, cell: (row) => html`<span title=${row.modeSource}>${row.mode}</span><small class="dim">${count(row.replicas, "pod", "pods")}</small>`},
    {name: "CPU", left: true, sort: "cpu-possible", cell: (row) => html`<${Sized} resource="cpu" hour=${row.hour} />`},
    {name: "Memory", left: true, sort: "memory-possible", cell: (row) => html`<${Sized} resource="memory" hour=${row.hour} />`},
    {name: "A month", sort: "cost", cell: (row) => html`<${CostCell} cost=${row.cost} pricing=${pricing} />`},
    {name: "Kills, 7 days", sort: "kills", cell: (row) => (row.killsWeek ? html`<b class="bad">${count(row.killsWeek)}</b>` : count(row.killsWeek))},
    {name: "Last action", left: true, cell: (row) => (row.lastAction ? html`${actionWords(row.lastAction.action)} <small class="dim"><${Ago} seconds=${row.lastAction.ageSeconds} /></small>` : html`<span class="dim">none in 30 days</span>`)},
  ];
  return html`
    <h1>Workloads</h1>
    <div class="filters" role="search">
      <${FilterBox} label="Find" name="q" value=${filters.q} placeholder="namespace, name or container" isFirst />
      <${FilterBox} label="Namespace" name="namespace" value=${filters.namespace} placeholder="all" />
      <${Choice} label="State" name="severity" value=${filters.severity} options=${[["", "any"], ...Object.entries(SEVERITIES).map(([name, {word}]) => [name, word])]} />
      <${Choice} label="Mode" name="mode" value=${filters.mode} options=${[["", "any"], ...["enforce", "protect", "initial", "recommend", "off"].map((mode) => [mode, mode])]} />
      <${Choice} label="Order" name="sort" value=${sort} options=${SORTS} />
      ${isFiltered && html`<button type="button" onClick=${() => change({q: null, namespace: null, severity: null, mode: null, kind: null, after: null})}>Clear filters</button>`}
    </div>
    <${Answered} path=${path}>${(body) => html`
      <${Scope} scope=${body.scope} />
      <div class="bar-row">
        <${BarKey} />
        <${Exports} name="workloads" fields=${WORKLOAD_FIELDS} all=${() => allOf("/v1/workloads", filters, "workloads")} />
      </div>
      <${Table} caption="Workloads" columns=${columnsOf(body.pricing)} rows=${body.workloads} keyOf=${(row) => `${row.namespace}/${row.kind}/${row.name}`} sort=${sort} onSort=${onSort} isReversed=${isReversed}
        empty=${isFiltered
          ? html`<p>No workload matches. Clear the filters, or ask for less.</p>`
          : html`<p>Nothing was reported yet. Agents report each five minutes, the first time some minutes after their start. See that they run:</p><${Command} text="kubectl -n plimsoll get pods -o wide" />`} />
      <${Pages} shown=${body.workloads.length} total=${body.total} next=${body.next} after=${asked("after")} what="workloads" />
      <p class="foot">Amounts are of the newest whole hour, all pods together: requested → recommended. Order by a column through its head.${pricingWords(body.pricing)}</p>
    `}<//>`;
}

// One workload.

function marksOf(body) {
  const now = Date.now();
  const resizes = (body.events ?? [])
    .filter((event) => event.changes?.length && ["applied", "accepted", "done", "reverted"].includes(event.outcome))
    .map((event) => ({
      unixHour: Math.floor((now / 1000 - event.ageSeconds) / 3600),
      kind: "resize",
      resources: new Set(event.changes.map((one) => one.resource)),
      words: `${event.pod ?? "pod"}: ${event.changes.map(changeWords).join(", ")}`,
    }));
  const kills = (body.killHours ?? []).map((kill) => ({
    unixHour: kill.unixHour,
    kind: "kill",
    words: `${count(kill.count, "kill", "kills")} for want of memory${kill.memoryBytes ? ` at ${memory(kill.memoryBytes)}` : ""}`,
  }));
  return [...resizes, ...kills];
}

// One mark an hour: of many pods one word each would lie on the other.
function byHour(marks) {
  const hours = new Map();
  for (const mark of marks) {
    const key = `${mark.kind} ${mark.unixHour}`;
    hours.set(key, [...(hours.get(key) ?? []), mark]);
  }
  return [...hours.values()].map((same) => ({...same[0], words: same.length > 3 ? `${same.slice(0, 3).map((mark) => mark.words).join("; ")}; and ${same.length - 3} more` : same.map((mark) => mark.words).join("; ")}));
}

const STEPS = {history: "What is known", policy: "The policy", advice: "Its answer", bound: "Bounds", kills: "Kills", applies: "What applies", autoscaler: "Autoscalers"};

function Explanation({steps}) {
  if (!steps?.length) return html`<p class="empty">Nothing is explained: there is no history of it yet.</p>`;
  return html`<ol class="steps">${steps.map(
    (step, index) => html`<li key=${index}><b>${STEPS[step.step] ?? step.step}${step.container ? `, ${step.container}` : ""}</b><span>${step.words}</span></li>`
  )}</ol>`;
}

export function Applies({applies}) {
  const rows = [
    ["mode", applies.mode.value, applies.mode.source],
    ["policy", applies.policy.value, applies.policy.source],
    ["pause", applies.pause.value ?? "not paused", applies.pause.source],
    ...(applies.share ? [["share of pods", applies.share.value, applies.share.source]] : []),
    ...(applies.cpuFrozenFor ? [["CPU is left alone", "yes", applies.cpuFrozenFor]] : []),
    ...(applies.memoryFrozenFor ? [["memory is left alone", "yes", applies.memoryFrozenFor]] : []),
    ...(applies.leftAloneFor ? [["left alone", "yes", applies.leftAloneFor]] : []),
    ...(applies.stopShrinkingSeconds ? [["only grows", `for another ${age(applies.stopShrinkingSeconds)}`, applies.stopShrinkingFor ?? "it was killed for want of memory"]] : []),
    ...applies.bounds.map((bound) => [bound.name, bound.value, bound.source]),
    ...Object.entries(applies.annotations).map(([name, value]) => [name, value, "annotation of the namespace"]),
  ];
  return html`<${Table} caption="What applies, and who said so" rows=${rows} keyOf=${(row) => row[0]} empty="" columns=${[
    {name: "What", left: true, cell: (row) => row[0]},
    {name: "In force", left: true, cell: (row) => html`<b>${row[1] ?? ABSENT}</b>`},
    {name: "Said by", left: true, cell: (row) => row[2]},
  ]} />`;
}

function Containers({containers}) {
  const adviceOf = (row, key) => row.advice[key];
  return html`<${Table} caption="Containers" rows=${containers} keyOf=${(row) => row.container} empty=${html`<p>No container is known.</p>`} columns=${[
    {name: "Container", left: true, cell: (row) => html`<b>${row.container}</b>${row.advice.missing ? html`<small class="dim">no advice: ${row.advice.missing.replaceAll("_", " ")}</small>` : html`<small class="dim">by ${row.advice.standsInFor ? `${row.advice.policy}, standing in for ${row.advice.standsInFor}` : row.advice.policy}</small>`}`},
    {name: "CPU to request", cell: (row) => html`<b>${cpu(adviceOf(row, "cpuRequestMillicores"))}</b>`},
    {name: "CPU base", cell: (row) => cpu(adviceOf(row, "cpuBaseMillicores"))},
    {name: "CPU largest", cell: (row) => cpu(adviceOf(row, "cpuMaxMillicores"))},
    {name: "Memory to request", cell: (row) => html`<b>${memory(adviceOf(row, "memoryRequestBytes"))}</b>`},
    {name: "Memory base", cell: (row) => memory(adviceOf(row, "memoryBaseBytes"))},
    {name: "Memory largest", cell: (row) => memory(adviceOf(row, "memoryMaxBytes"))},
    {name: "History", cell: (row) => age(adviceOf(row, "historySeconds"))},
    {name: "Newest", cell: (row) => ago(adviceOf(row, "newestAgeSeconds"))},
  ]} />`;
}

function Spread({body}) {
  const isDaemonSet = body.kind === "DaemonSet";
  const rows = body.containers.flatMap((container) => (isDaemonSet ? container.nodes : container.classes).map((side) => ({...side, container: container.container})));
  if (!rows.length) return html`<p class="empty">No node has told of it in the hours that are kept in memory.</p>`;
  return html`<${Table} caption=${isDaemonSet ? "By node" : "By class of node"} rows=${rows} keyOf=${(row) => `${row.container}/${row.node}/${row.instanceType}/${row.cpus}`} empty="" columns=${[
    {name: isDaemonSet ? "Node" : "Class of node", left: true, cell: (row) => html`${row.node ?? row.instanceType ?? "unknown"}<small class="dim">${count(row.cpus, "CPU", "CPUs")}</small>`},
    {name: "Container", left: true, cell: (row) => row.container},
    {name: "Pods", cell: (row) => count(row.pods)},
    {name: "CPU base", cell: (row) => cpu(row.cpuBaseMillicores)},
    {name: "Memory base", cell: (row) => memory(row.memoryBaseBytes)},
    {name: "History", cell: (row) => age(row.historySeconds)},
    {name: "Newest", cell: (row) => ago(row.newestAgeSeconds)},
  ]} />`;
}

function Pods({pods, total}) {
  if (total === null) return html`<p class="empty">The cluster's pods are not known yet; look again in a minute.</p>`;
  return html`<${Table} caption="Pods" rows=${pods} keyOf=${(row) => row.pod} empty=${html`<p>No pod of it is there now.</p>`} columns=${[
    {name: "Pod", left: true, kind: "name", cell: (row) => row.pod},
    {name: "Node", left: true, kind: "name", cell: (row) => row.node ?? ABSENT},
    {name: "State", left: true, cell: (row) => row.state},
    {name: "CPU requested", cell: (row) => cpu(row.cpuRequestMillicores)},
    {name: "Memory requested", cell: (row) => memory(row.memoryRequestBytes)},
    {name: "Resize pending", left: true, kind: "why", cell: (row) => row.resizePending ?? ABSENT},
  ]} />${total > pods.length && html`<p class="dim">The first ${count(pods.length)} of ${count(total)}: those whose resize is pending, then by name.</p>`}`;
}

function snippet(body) {
  let lines = ["spec:", "  template:", "    spec:"];
  const isOnPods = body.containers.some(({kind}) => kind);
  const advised = body.containers.filter(({kind, advice}) => !advice.missing && (kind || !isOnPods));
  for (const list of ["initContainers", "containers"]) {
    const listed = advised.filter(({kind}) => ["init", "sidecar"].includes(kind) === (list === "initContainers"));
    if (listed.length) lines.push(`      ${list}:`);
    for (const {container, advice} of listed) {
      lines.push(`        - name: ${JSON.stringify(container)}`, "          resources:", "            requests:");
      const amounts = [["cpu", quantity("cpu", advice.cpuRequestMillicores)], ["memory", quantity("memory", advice.memoryRequestBytes)]];
      for (const [name, value] of amounts) if (value) lines.push(`              ${name}: ${value}`);
    }
  }
  if (body.kind === "CronJob") lines = ["spec:", "  jobTemplate:", ...lines.map((line) => `    ${line}`)];
  const head = `# What Plimsoll recommends for ${body.kind} ${body.namespace}/${body.name}, per pod.`;
  return advised.length ? [head, ...lines].join("\n") : null;
}

// Whose pods are made by another kind than the one that people write has no such object to annotate.
const ANNOTATED = {Deployment: "deployment", StatefulSet: "statefulset", DaemonSet: "daemonset", ReplicaSet: "replicaset"};

function Todo({body}) {
  const {namespace, kind, name, applies} = body;
  const yaml = snippet(body);
  const resource = ANNOTATED[kind];
  const annotation = (key, value) =>
    command("kubectl", "-n", namespace, "patch", resource, name, "--type", "merge", "-p", JSON.stringify({spec: {template: {metadata: {annotations: {[`plimsoll.dev/${key}`]: value}}}}}));
  const mode = applies.mode.value;
  return html`
    ${resource && mode !== "enforce" && html`<${Command} label="Let Plimsoll size its pods in place (this makes new pods once)" text=${annotation("mode", "enforce")} />`}
    ${mode !== "enforce" && html`<${Command} label="The whole namespace likewise (no pod is made anew)" text=${command("kubectl", "annotate", "namespace", namespace, "plimsoll.dev/mode=enforce")} />`}
    ${resource && mode !== "off" && html`<${Command} label="Leave it alone (this makes new pods once)" text=${annotation("mode", "off")} />`}
    ${resource && html`<${Command} label="Never less memory than this (put your own amount)" text=${annotation("min-memory", "256Mi")} />`}
    <${Command} label="Everything that the webhook knows of it" text=${command("kubectl", "plimsoll", "workloads", `${namespace}/${kind}/${name}`)} />
    <${Command} label="As a Component of Kustomize (helm and ssa likewise)" text=${command("kubectl", "plimsoll", "workloads", `${namespace}/${kind}/${name}`, "-o", "kustomize")} />
    ${yaml && html`<${Command} label="In a manifest" text=${yaml} />`}
  `;
}

const EVENT_COLUMNS = [
  {name: "When", left: true, cell: (event) => html`<${Ago} seconds=${event.ageSeconds} />`},
  {name: "Outcome", left: true, cell: (event) => html`<${Outcome} name=${event.outcome} />`},
  {name: "What", left: true, kind: "why", cell: (event) => html`<b>${actionWords(event.action)}</b>${event.repeats > 1 ? ` ×${count(event.repeats)}` : ""} ${(event.changes ?? []).map((one, index) => html`<small key=${index}>${changeWords(one)}</small>`)}`},
  {name: "Pod", left: true, kind: "name", cell: (event) => event.pod ?? ABSENT},
  {name: "Why", left: true, kind: "why", cell: (event) => html`${event.reason}${event.detail ? html`<small class="dim">${event.detail}</small>` : ""}`},
];

// The newest word about each pod, where that is that it has to wait or cannot be had.
function waiting(events) {
  const seen = new Set();
  return events.filter((event) => {
    if (!event.podUid || seen.has(event.podUid)) return false;
    seen.add(event.podUid);
    return ["deferred", "infeasible", "rejected", "conflict", "error", "withheld"].includes(event.outcome);
  });
}

export function Workload({route}) {
  const [namespace, kind, name] = route.parts;
  return html`
    <p class="crumbs"><a href=${to("workloads")}>Workloads</a> / <a href=${to("workloads", [], {namespace})}>${namespace}</a></p>
    <h1>${name} <small>${kind} in ${namespace}</small></h1>
    <${Answered} path=${`/v1/workloads/${pathOf(namespace, kind, name)}`}>${(body) => html`<${WorkloadBody} body=${body} />`}<//>`;
}

function WorkloadBody({body}) {
  const marks = useMemo(() => marksOf(body), [body]);
  const hours = body.ledger ?? [];
  const events = body.events ?? [];
  const stuck = waiting(events);
  return html`
    <p class="lead">Mode <b>${body.applies.mode.value}</b>, policy <b>${body.applies.policy.value}</b>, ${count(body.applies.replicas, "pod", "pods")}, ${age(body.historySeconds)} of history, the newest ${ago(body.newestAgeSeconds)}.</p>
    ${body.applies.rulesFault && html`<${Notice} kind="warn" title="The cluster's rules cannot be read.">${body.applies.rulesFault}<//>`}
    ${body.ledgerFault && html`<${Notice} kind="warn" title="Hours of the past are not to be had now.">${body.ledgerFault}<//>`}
    ${stuck.length > 0 && html`<section class="card"><h2>Waits or was refused</h2><${Table} caption="Pods whose newest resize waits or was refused" rows=${stuck} keyOf=${(event) => event.id} empty="" columns=${EVENT_COLUMNS} /></section>`}
    <div class="two">
      <section class="card"><h2 class="unseen">CPU over 14 days</h2><${History} title="CPU" resource="cpu" hours=${hours} marks=${byHour(marks.filter((mark) => mark.kind === "kill" ? false : mark.resources.has("cpu")))} /></section>
      <section class="card"><h2 class="unseen">Memory over 14 days</h2><${History} title="Memory" resource="memory" hours=${hours} marks=${byHour(marks.filter((mark) => mark.kind === "kill" || mark.resources.has("memory")))} /></section>
    </div>
    <div class="two">
      <section class="card"><h2>Why</h2><${Explanation} steps=${body.explanation} />${(body.hpaAdvice ?? []).map((line, index) => html`<${Notice} key=${index} kind="note">${line}<//>`)}</section>
      <section class="card"><h2>What you can do</h2><p class="dim">Nothing here writes: copy what you want to run.</p><${Todo} body=${body} /></section>
    </div>
    <section class="card"><h2>What it costs</h2><${WorkloadWorth} cost=${body.cost} pricing=${body.pricing} /></section>
    <section class="card"><h2>Containers, per pod</h2><${Containers} containers=${body.containers} /></section>
    <section class="card"><h2>Pods, now</h2><${Pods} pods=${body.pods ?? []} total=${body.podsTotal ?? null} /></section>
    <section class="card"><h2>${body.kind === "DaemonSet" ? "By node" : "By class of node"}</h2><${Spread} body=${body} /></section>
    <section class="card"><h2>What applies, and who said so</h2><${Applies} applies=${body.applies} /></section>
    <section class="card"><h2>What was done, 14 days</h2><${Table} caption="What was done" rows=${events.slice(0, 12)} keyOf=${(event) => event.id} columns=${EVENT_COLUMNS} empty=${html`<p>Nothing was done to it in these days${body.applies.mode.value === "recommend" ? ": its mode is recommend, so Plimsoll only tells" : ""}.</p>`} />
      ${events.length > 12 && html`<p><a href=${to("events", [], {namespace: body.namespace, workload: `${body.kind}/${body.name}`})}>All ${count(events.length)} of them</a></p>`}</section>
  `;
}

export {EVENT_COLUMNS};
