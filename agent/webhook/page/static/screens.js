// The screens Now, Nodes, Events, Policy and Cost.
import {html, useMemo} from "./base.js";
import {query, useAnswer} from "./client.js";
import {ABSENT, ago, count, cpu, memory} from "./figures.js";
import {Ago, Answered, Choice, Command, Exports, FilterBox, Notice, Outcome, Pages, Price, Scope, SEVERITIES, Severity, Table, actionWords, allOf, changeWords, command} from "./parts.js";
import {Amounts, History, Stack, StackKey} from "./plots.js";
import {change, to} from "./route.js";
import {EVENT_COLUMNS} from "./workloads.js";

// Now.

function Sums({body}) {
  const {hour, nodes} = body;
  const items = (resource, unit, allocatable) => [
    ...(nodes ? [{name: "allocatable", value: allocatable, kind: "allocatable"}] : []),
    {name: "requested as written", value: hour[resource][`written${unit}`], kind: "written"},
    {name: "requested now", value: hour[resource][`requested${unit}`], kind: "requested", words: hour.withoutRequested ? `without ${count(hour.withoutRequested, "workload", "workloads")}` : null},
    {name: "recommended", value: hour[resource][`recommended${unit}`], kind: "recommended", words: hour.withoutRecommended ? `without ${count(hour.withoutRecommended, "workload", "workloads")}` : null},
    {name: "used, P95", value: hour[resource][`usedP95${unit}`], kind: "used"},
  ];
  return html`<div class="two">
    <section class="card"><h2>CPU</h2><${Amounts} title="CPU of the hour" resource="cpu" items=${items("cpu", "Millicores", nodes?.cpuAllocatableMillicores)} /></section>
    <section class="card"><h2>Memory</h2><${Amounts} title="Memory of the hour" resource="memory" items=${items("memory", "Bytes", nodes?.memoryAllocatableBytes)} /></section>
  </div>`;
}

function Worth({hour}) {
  const {entry} = useAnswer("/v1/cost?limit=1");
  const cost = entry?.body ?? null;
  const price = (name) => (cost ? html`<small><${Price} text=${cost.total[`${name}Month`]} pricing=${cost} isList=${cost.isListPrice} /> a month${cost.isListPrice ? html` <span class="dim">${cost.listPriceNote}</span>` : ""}</small>` : null);
  const tile = (name, title, words, kind) => html`<div class=${`tile ${kind}`}>
    <h2>${title}</h2>
    <p class="big">${cpu(hour[`${name}CpuMillicores`])}</p><p class="big">${memory(hour[`${name}MemoryBytes`])}</p>
    ${price(name)}<p class="dim">${words}</p>
  </div>`;
  return html`<div class="tiles">
    ${tile("freed", "✓ Freed", "written, and requested no more", "good")}
    ${tile("possible", "▽ Still possible", "requested, and not needed", "some")}
    ${tile("needed", "▲ Needed", "not requested, and needed: never set off against the others", "bad")}
  </div>`;
}

function Stopped({stopped}) {
  if (!stopped.length) return html`<${Notice} kind="good" title="Nothing is stopped." />`;
  return stopped.map((one, index) => html`<${Notice} key=${index} kind="warn" title=${`${one.what[0].toUpperCase()}${one.what.slice(1)}:`}>${one.detail}${one.command && html`<${Command} text=${one.command} />`}<//>`);
}

function States({workloads}) {
  return html`<ul class="states">${Object.keys(SEVERITIES).map(
    (name) => html`<li key=${name}><a href=${to("workloads", [], {severity: name})}><b class="big">${count(workloads[name])}</b><${Severity} name=${name} /></a></li>`
  )}</ul>
  <p class="dim">Of ${count(workloads.total, "workload", "workloads")}. By mode: ${Object.entries(workloads.byMode).filter(([, number]) => number).map(([mode, number]) => `${mode} ${count(number)}`).join(", ") || ABSENT}.</p>`;
}

// Days as if they were hours, so that the same plot takes them.
const dayHours = (days) =>
  days.flatMap(({unixDay, sum}) => Array.from({length: 24}, (_, hour) => ({...sum, unixHour: unixDay * 24 + hour})));

const NAMESPACE_FIELDS = {
  namespace: (row) => row.namespace,
  workloads: (row) => row.hour.workloads,
  ...Object.fromEntries(["requested", "recommended", "usedMean", "usedP95"].flatMap((name) => [["cpu", "Millicores"], ["memory", "Bytes"]].map(([resource, unit]) => [`${resource}_${name}${unit}`, (row) => row.hour[resource][`${name}${unit}`]]))),
  ...Object.fromEntries(["freed", "possible", "needed"].flatMap((name) => [[`${name}CpuMillicores`, (row) => row.hour[`${name}CpuMillicores`]], [`${name}MemoryBytes`, (row) => row.hour[`${name}MemoryBytes`]]])),
};

export function Now() {
  return html`<${Answered} path="/v1/summary">${(body) => html`<${Summary} body=${body} />`}<//>`;
}

function Summary({body}) {
  const {hour} = body;
  const days = useMemo(() => dayHours(body.days), [body]);
  return html`
    <h1 class="sentence">${body.sentence}</h1>
    <p class="lead">${hour ? html`Over the hour that ended ${ago(body.hourAgeSeconds)}, ` : "No whole hour is known yet, "}${body.scope.words}${body.nodes ? `; ${count(body.nodes.reporting)} of ${count(body.nodes.count, "node reports", "nodes report")}` : ""}.</p>
    <${Scope} scope=${body.scope} />
    <${Stopped} stopped=${body.stopped} />
    ${hour
      ? html`<${Sums} body=${body} /><${Worth} hour=${hour} />`
      : html`<${Notice} title="No figures yet.">The first come a quarter of an hour after the end of an hour in which a node reported. See that the agents run:<${Command} text="kubectl -n plimsoll get pods -o wide" /><//>`}
    <section class="card"><h2>Workloads</h2><${States} workloads=${body.workloads} /></section>
    ${days.length > 0 && html`<div class="two">
      <section class="card"><h2 class="unseen">CPU by day</h2><${History} title="CPU" resource="cpu" hours=${days} each="day" /></section>
      <section class="card"><h2 class="unseen">Memory by day</h2><${History} title="Memory" resource="memory" hours=${days} each="day" /></section>
    </div>`}
    <section class="card"><h2>Last actions</h2>
      <${Table} caption="Last actions" rows=${body.actions} keyOf=${(event) => event.id} columns=${CLUSTER_EVENT_COLUMNS} empty=${html`<p>Nothing was done yet. Plimsoll only tells until a mode says enforce:</p><${Command} text="kubectl plimsoll policy NAMESPACE/NAME" />`} />
      <p><a href=${to("events")}>All events</a></p></section>
    ${body.namespaces.length > 0 && html`<section class="card"><h2>Namespaces</h2>
      <div class="bar-row"><span></span><${Exports} name="namespaces" fields=${NAMESPACE_FIELDS} all=${async () => body.namespaces} /></div>
      <${Table} caption="Namespaces" rows=${body.namespaces} keyOf=${(row) => row.namespace} empty="" columns=${[
        {name: "Namespace", left: true, kind: "name", cell: (row) => html`<a data-row="yes" href=${to("workloads", [], {namespace: row.namespace})}>${row.namespace}</a><small class="dim">${count(row.hour.workloads, "workload", "workloads")}</small>`},
        {name: "CPU requested", cell: (row) => cpu(row.hour.cpu.requestedMillicores)},
        {name: "CPU used, P95", cell: (row) => cpu(row.hour.cpu.usedP95Millicores)},
        {name: "CPU to free", cell: (row) => html`<b>${cpu(row.hour.possibleCpuMillicores)}</b>`},
        {name: "CPU needed", cell: (row) => cpu(row.hour.neededCpuMillicores)},
        {name: "Memory requested", cell: (row) => memory(row.hour.memory.requestedBytes)},
        {name: "Memory used, P95", cell: (row) => memory(row.hour.memory.usedP95Bytes)},
        {name: "Memory to free", cell: (row) => html`<b>${memory(row.hour.possibleMemoryBytes)}</b>`},
        {name: "Memory needed", cell: (row) => memory(row.hour.neededMemoryBytes)},
      ]} /></section>`}
  `;
}

// Nodes.

const planField = (resource, name) => (row) => row.plan?.[resource][name] ?? null;
const PLAN_FIELDS = ["requested", "reserved", "base", "headroom", "free"].flatMap((name) => [[`${name}CpuMillicores`, planField("cpu", `${name}Millicores`)], [`${name}MemoryBytes`, planField("memory", `${name}Bytes`)]]);
const NODE_FIELDS = Object.fromEntries([
  ...["node", "instanceType", "cpus", "cpuAllocatableMillicores", "memoryAllocatableBytes", "workloads", "isSilent", "isOverloaded", "kubelet", "agentVersion", "newestAgeSeconds", "lostReports", "missingReports", "droppedDecisions", "planMissing"].map((name) => [name, (row) => row[name]]),
  ...PLAN_FIELDS,
]);

// Without a plan, what there is to share out, and why no more is known.
const Filled = ({node, resource}) =>
  node.plan
    ? html`<${Stack} resource=${resource} sums=${node.plan[resource]} />`
    : html`${resource === "cpu" ? cpu(node.cpuAllocatableMillicores) : memory(node.memoryAllocatableBytes)} <span class="dim">allocatable</span><small class="dim">no plan: ${node.planMissing ?? "this webhook does not tell"}</small>`;

function NodeState({node}) {
  if (node.isSilent) return html`<span class="severity short"><b aria-hidden="true">▲</b> silent</span>`;
  if (node.isOverloaded) return html`<span class="severity short"><b aria-hidden="true">▲</b> overloaded</span>`;
  return html`<span class="severity fits"><b aria-hidden="true">●</b> reports</span>`;
}

export function Nodes({route}) {
  const filter = (route.query.get("q") ?? "").toLowerCase();
  return html`<h1>Nodes</h1>
    <div class="filters" role="search"><${FilterBox} label="Find" name="q" value=${route.query.get("q")} placeholder="node or instance type" isFirst /></div>
    <${Answered} path="/v1/nodes">${(body) => {
      const rows = body.nodes.filter((node) => `${node.node} ${node.instanceType ?? ""}`.toLowerCase().includes(filter));
      if (body.scope && !body.scope.wholeCluster) return html`<${Notice} title="Nodes are of the whole cluster.">${body.scope.words}. Nodes are shown to who has the right to get the nonResourceURL /v1/*:<${Command} text="kubectl auth can-i get /v1/nodes" /><//>`;
      return html`
        <div class="bar-row"><span class="dim">${count(rows.length, "node", "nodes")}, ${count(rows.filter((node) => node.isSilent).length)} silent</span><${StackKey} /><${Exports} name="nodes" fields=${NODE_FIELDS} all=${async () => rows} /></div>
        <${Table} caption="Nodes" rows=${rows} keyOf=${(node) => node.node} empty=${filter ? html`<p>No node matches. Clear the filter.</p>` : html`<p>No node has reported yet. See that the agents run:</p><${Command} text="kubectl -n plimsoll get pods -o wide" />`} columns=${[
          {name: "State", left: true, cell: (node) => html`<${NodeState} node=${node} />`},
          {name: "Node", left: true, kind: "name", cell: (node) => html`<a data-row="yes" href=${to("events", [], {node: node.node})}><b>${node.node}</b></a><small class="dim">${node.instanceType ?? "type not known"}, ${count(node.cpus, "CPU", "CPUs")}</small>`},
          {name: "CPU", left: true, cell: (node) => html`<${Filled} node=${node} resource="cpu" />`},
          {name: "Memory", left: true, cell: (node) => html`<${Filled} node=${node} resource="memory" />`},
          {name: "Workloads", cell: (node) => count(node.workloads)},
          {name: "Reported", cell: (node) => html`<${Ago} seconds=${node.receivedAgeSeconds ?? node.newestAgeSeconds} />`},
          {name: "Reports lost", cell: (node) => count(node.lostReports)},
          {name: "Kubelet", left: true, cell: (node) => node.kubelet ?? ABSENT},
          {name: "Agent", left: true, cell: (node) => node.agentVersion ?? ABSENT},
        ]} />
        <p class="foot">A node is silent when it has not reported for 15 minutes. Plans are of each node's newest report. Every pod of a plan, the node's agent tells:</p>
        <${Command} text=${command("kubectl", "plimsoll", "plan", rows[0]?.node ?? "NODE")} />`;
    }}<//>`;
}

// Events.

const EVENT_FIELDS = {
  unixSeconds: (event) => Math.round(Date.now() / 1000 - event.ageSeconds),
  ...Object.fromEntries(["node", "namespace", "kind", "workload", "pod", "action", "outcome", "reason", "detail", "by", "seconds", "repeats"].map((name) => [name, (event) => event[name]])),
  changes: (event) => (event.changes ?? []).map(changeWords).join("; "),
};

const subject = (event) =>
  event.workload
    ? html`<a data-row="yes" href=${to("workloads", [event.namespace, event.kind, event.workload])}>${event.namespace}/<b>${event.workload}</b></a><small class="dim">${event.pod ?? event.kind}</small>`
    : event.pod
      ? html`${event.namespace}/${event.pod}`
      : html`<span class="dim">the node</span>`;

const CLUSTER_EVENT_COLUMNS = [
  ...EVENT_COLUMNS.slice(0, 3),
  {name: "Of", left: true, kind: "name", cell: subject},
  EVENT_COLUMNS[4],
  {name: "Node", left: true, kind: "name", cell: (event) => html`${event.node}${event.by ? html`<small>by ${event.by}</small>` : ""}`},
];

const SPANS = [["", "30 days"], ["3600", "an hour"], ["86400", "a day"], ["604800", "a week"]];
const ACTION_NAMES = ["resize", "revert", "restore", "boost", "unboost", "eviction", "taint", "untaint", "pod_limits", "qos_reserve", "pause", "resume", "pin", "unpin", "notice"];
const OUTCOMES = ["accepted", "applied", "deferred", "infeasible", "rejected", "conflict", "error", "reverted", "withheld", "proposed", "done"];

export function Events({route}) {
  const names = ["namespace", "workload", "pod", "node", "action", "outcome", "sinceSeconds"];
  const filters = Object.fromEntries(names.map((name) => [name, route.query.get(name)]));
  const after = route.query.get("after");
  const isFiltered = names.some((name) => filters[name]);
  return html`<h1>Events</h1>
    <div class="filters" role="search">
      <${FilterBox} label="Namespace" name="namespace" value=${filters.namespace} placeholder="all" isFirst />
      <${FilterBox} label="Workload" name="workload" value=${filters.workload} placeholder="NAME or KIND/NAME" />
      <${FilterBox} label="Pod" name="pod" value=${filters.pod} placeholder="web-*" />
      <${FilterBox} label="Node" name="node" value=${filters.node} placeholder="all" />
      <${Choice} label="Action" name="action" value=${filters.action} options=${[["", "any"], ...ACTION_NAMES.map((action) => [action, actionWords(action)])]} />
      <${Choice} label="Outcome" name="outcome" value=${filters.outcome} options=${[["", "any"], ...OUTCOMES.map((outcome) => [outcome, outcome])]} />
      <${Choice} label="Within" name="sinceSeconds" value=${filters.sinceSeconds} options=${SPANS} />
      ${isFiltered && html`<button type="button" onClick=${() => change({...Object.fromEntries(names.map((name) => [name, null])), after: null})}>Clear filters</button>`}
    </div>
    <${Answered} path=${query("/v1/events", {...filters, limit: 100, after})}>${(body) => html`
      <${Scope} scope=${body.scope} />
      ${body.dropped ? html`<${Notice} kind="warn" title=${`${count(body.dropped, "event was", "events were")} dropped on nodes before they could be told.`}>The nodes' own logs have them.<//>` : ""}
      <div class="bar-row"><span class="dim">newest first, kept for ${count(body.retentionDays, "day", "days")}</span><${Exports} name="events" fields=${EVENT_FIELDS} all=${() => allOf("/v1/events", filters, "events")} /></div>
      <${Table} caption="Events" rows=${body.events} keyOf=${(event) => event.id} columns=${CLUSTER_EVENT_COLUMNS}
        empty=${isFiltered ? html`<p>No event matches. Clear the filters, or take a longer time.</p>` : html`<p>Nothing was decided or done in these days. Where every mode is recommend, Plimsoll only tells; nodes send what they do every five minutes.</p>`} />
      <${Pages} shown=${body.events.length} next=${body.next} after=${after} what="events" />
    `}<//>`;
}

// Policy.

const POLICY_FIELDS = {
  namespace: (row) => row.namespace,
  kind: (row) => row.kind,
  name: (row) => row.name,
  mode: (row) => row.applies.mode.value,
  modeSource: (row) => row.applies.mode.source,
  policy: (row) => row.applies.policy.value,
  policySource: (row) => row.applies.policy.source,
  pause: (row) => row.applies.pause.value,
  bounds: (row) => row.applies.bounds.map((bound) => `${bound.name}=${bound.value} (${bound.source})`).join("; "),
  leftAloneFor: (row) => row.applies.leftAloneFor,
};

const From = ({given}) => html`<b>${given.value ?? ABSENT}</b><small class="dim">${given.source}</small>`;

export function Policy({route}) {
  const filters = {q: route.query.get("q"), namespace: route.query.get("namespace")};
  const after = route.query.get("after");
  return html`<h1>Policy</h1>
    <div class="filters" role="search">
      <${FilterBox} label="Find" name="q" value=${filters.q} placeholder="namespace or name" isFirst />
      <${FilterBox} label="Namespace" name="namespace" value=${filters.namespace} placeholder="all" />
    </div>
    <${Answered} path=${query("/v1/policy", {...filters, limit: 100, after})}>${(body) => html`
      <${Scope} scope=${body.scope} />
      ${body.pause.value && html`<${Notice} kind="warn" title=${`Paused: ${body.pause.value}.`}>Said by ${body.pause.source}. Nothing is written anywhere until it is taken away.<//>`}
      ${body.rulesFault && html`<${Notice} kind="bad" title="The cluster's rules cannot be read.">${body.rulesFault} Until it is mended, the last rules that could be read hold.<//>`}
      ${body.faults.map((fault, index) => html`<${Notice} key=${index} kind="warn">${fault}<//>`)}
      ${body.profile.length > 0 && html`<section class="card"><h2>Profile</h2><${Table} caption="Profile" rows=${body.profile} keyOf=${(row) => row.name} empty="" columns=${[
        {name: "Setting", left: true, cell: (row) => row.name}, {name: "In force", left: true, cell: (row) => html`<b>${row.value}</b>`}, {name: "Said by", left: true, cell: (row) => row.source},
      ]} /></section>`}
      <div class="bar-row"><span class="dim">what is in force, and who said so</span><${Exports} name="policy" fields=${POLICY_FIELDS} all=${() => allOf("/v1/policy", filters, "workloads")} /></div>
      <${Table} caption="Policy" rows=${body.workloads} keyOf=${(row) => `${row.namespace}/${row.kind}/${row.name}`} columns=${[
        {name: "Workload", left: true, kind: "name", cell: (row) => html`<a data-row="yes" href=${to("workloads", [row.namespace, row.kind, row.name])}>${row.namespace}/<b>${row.name}</b></a><small class="dim">${row.kind}</small>`},
        {name: "Mode", left: true, cell: (row) => html`<${From} given=${row.applies.mode} />`},
        {name: "Policy", left: true, cell: (row) => html`<${From} given=${row.applies.policy} />`},
        {name: "Bounds", left: true, kind: "why", cell: (row) => (row.applies.bounds.length ? row.applies.bounds.map((bound) => html`<span key=${bound.name}><b>${bound.name} ${bound.value}</b><small class="dim">${bound.source}</small></span>`) : html`<span class="dim">none</span>`)},
        {name: "Left alone", left: true, kind: "why", cell: (row) => [row.applies.leftAloneFor, row.applies.cpuFrozenFor && `CPU: ${row.applies.cpuFrozenFor}`, row.applies.memoryFrozenFor && `memory: ${row.applies.memoryFrozenFor}`].filter(Boolean).join("; ") || html`<span class="dim">no</span>`},
      ]} empty=${filters.q || filters.namespace ? html`<p>No workload matches. Clear the filters.</p>` : html`<p>No workload is known yet: agents report each five minutes.</p>`} />
      <${Pages} shown=${body.workloads.length} total=${body.total} next=${body.next} after=${after} what="workloads" />
    `}<//>`;
}

// Cost.

const BY = [["namespace", "namespace"], ["workload", "workload"], ["node", "node"], ["label", "label"]];
const COST_FIELDS = Object.fromEntries(
  ["namespace", "kind", "name", "node", "value", "pods", "costMonth", "cpuMonth", "memoryMonth", "idleMonth", "freedMonth", "possibleMonth", "neededMonth", "podsWithoutAdvice", "isListPrice", "priceSource"].map((name) => [name, (row) => row[name]])
);

const costName = (row, by) => {
  if (by === "workload") return html`<a data-row="yes" href=${to("workloads", [row.namespace, row.kind, row.name])}>${row.namespace}/<b>${row.name}</b></a><small class="dim">${row.kind}</small>`;
  if (by === "node") return html`<b>${row.node}</b><small class="dim">${row.priceSource ?? ""}</small>`;
  if (by === "label") return row.value === "" ? html`<span class="dim">without it</span>` : html`<b>${row.value}</b>`;
  return html`<a data-row="yes" href=${to("cost", [], {by: "workload", namespace: row.namespace})}><b>${row.namespace}</b></a>`;
};

function Fit({fit, price}) {
  if (!fit) return null;
  if (fit.fault) return html`<section class="card"><h2>Nodes that could go</h2><${Notice} kind="warn" title="It cannot be told.">${fit.fault}<//></section>`;
  return html`<section class="card"><h2>${count(fit.couldGo)} of ${count(fit.nodes, "node", "nodes")} could go${fit.couldGo ? html`: ${price(fit.savesMonth, fit.isListPrice)} a month` : ""}</h2>
    <p class="dim">If every pod requested what is recommended: DaemonSets, disruption budgets and where pods may run are counted. The bill falls by this alone.</p>
    ${fit.go.length > 0 && html`<${Table} caption="Nodes that could go" rows=${fit.go} keyOf=${(row) => row.node} empty="" columns=${[
      {name: "Node, in this order", left: true, kind: "name", cell: (row) => html`<b>${row.node}</b>`},
      {name: "A month", cell: (row) => price(row.month, fit.isListPrice)},
      {name: "Pods that move", cell: (row) => count(row.moves)},
      {name: "To begin", left: true, kind: "why", cell: (row) => html`<${Command} text=${command("kubectl", "drain", row.node, "--ignore-daemonsets", "--dry-run=server")} />`},
    ]} />`}
    ${fit.stay.length > 0 && html`<details><summary>Why the others stay</summary><${Table} caption="Nodes that stay" rows=${fit.stay} keyOf=${(row) => row.node} empty="" columns=${[
      {name: "Node", left: true, cell: (row) => row.node}, {name: "Why", left: true, kind: "why", cell: (row) => row.reason},
    ]} /></details>`}
  </section>`;
}

export function Cost({route}) {
  const by = route.query.get("by") ?? "namespace";
  const filters = {by, label: by === "label" ? route.query.get("label") : null, namespace: by === "node" ? null : route.query.get("namespace")};
  const after = route.query.get("after");
  const isAsked = by !== "label" || filters.label;
  return html`<h1>Cost</h1>
    <div class="filters" role="search">
      <${Choice} label="By" name="by" value=${by} options=${BY} />
      ${by === "label" && html`<${FilterBox} label="Label" name="label" value=${filters.label} placeholder="of the setting cost.labels" isFirst />`}
      ${by !== "node" && html`<${FilterBox} label="Namespace" name="namespace" value=${filters.namespace} placeholder="all" />`}
    </div>
    ${isAsked
      ? html`<${Answered} path=${query("/v1/cost", {...filters, limit: 500, after})}>${(body) => html`<${CostBody} body=${body} by=${by} filters=${filters} after=${after} />`}<//>`
      : html`<${Notice} title="By which label?">Type its key: one of those in the webhook's setting cost.labels.<//>`}`;
}

function CostBody({body, by, filters, after}) {
  const {total} = body;
  const isWhole = total.nodes !== null; // a node's price would tell what the pods of others cost
  const price = (text, isList) => html`<${Price} text=${text} pricing=${body} isList=${isList} />`;
  const rows = useMemo(() => [...body.rows].sort((one, other) => Number(other.costMonth) - Number(one.costMonth)), [body]);
  const tile = (title, text, words, kind) => html`<div class=${`tile ${kind}`}><h2>${title}</h2><p class="big">${price(text, body.isListPrice)}</p><p class="dim">${words}</p></div>`;
  return html`
    <${Scope} scope=${body.scope} />
    ${body.isListPrice && html`<${Notice} kind="warn" title=${`* ${body.listPriceNote}.`}>Put your own prices into the webhook's settings cost.nodes, cost.file, or cost.cpuCoreHour and cost.memoryGibHour.<//>`}
    <div class="tiles">
      ${isWhole && tile("All nodes", total.costMonth, `a month, ${count(total.nodes, "node", "nodes")}, ${count(total.pods, "pod", "pods")}`, "")}
      ${tile("Requested by pods", total.podsMonth, isWhole ? "a month" : `a month, ${count(total.pods, "pod", "pods")}`, "")}
      ${isWhole && tile("Idle", total.idleMonth, "requested by nobody", "")}
      ${tile("✓ Freed", total.freedMonth, "written, and requested no more", "good")}
      ${tile("▽ Still possible", total.possibleMonth, "requested, and not needed", "some")}
      ${tile("▲ Needed", total.neededMonth, "not requested, and needed: never set off against the others", "bad")}
    </div>
    <p class="dim">Months of ${body.monthHours} hours, pods as they stand now${total.podsWithoutAdvice ? `; ${count(total.podsWithoutAdvice, "pod has", "pods have")} no advice yet and count as they are` : ""}${total.unplacedPods ? `; ${count(total.unplacedPods, "pod is", "pods are")} on no node` : ""}${total.unpricedNodes?.length ? `; without a price: ${total.unpricedNodes.join(", ")}` : ""}. A core-hour is ${body.cpuCoreHour} ${body.currency}, a GiB-hour ${body.memoryGibHour} ${body.currency} where a node has no price of its own.</p>
    <${Fit} fit=${body.fit} price=${price} />
    <div class="bar-row"><span class="dim">${body.next || after ? "dearest of this page first, pages by name" : "dearest first"}</span><${Exports} name=${`cost-by-${by}`} fields=${COST_FIELDS} all=${() => allOf("/v1/cost", filters, "rows")} /></div>
    <${Table} caption="Cost" rows=${rows} keyOf=${(row) => row.key} empty=${by === "node" && !isWhole ? html`<p>What nodes cost is told to readers of the whole cluster alone.</p>` : html`<p>Nothing runs here, or nothing of it is known yet.</p>`} columns=${[
      {name: by[0].toUpperCase() + by.slice(1), left: true, kind: "name", cell: (row) => costName(row, by)},
      {name: "Pods", cell: (row) => count(row.pods)},
      {name: "A month", cell: (row) => html`<b>${price(row.costMonth, row.isListPrice)}</b>`},
      {name: "CPU", cell: (row) => price(row.cpuMonth, row.isListPrice)},
      {name: "Memory", cell: (row) => price(row.memoryMonth, row.isListPrice)},
      ...(by === "node" ? [{name: "Idle", cell: (row) => price(row.idleMonth, row.isListPrice)}] : []),
      {name: "Freed", cell: (row) => price(row.freedMonth, row.isListPrice)},
      {name: "Possible", cell: (row) => price(row.possibleMonth, row.isListPrice)},
      {name: "Needed", cell: (row) => price(row.neededMonth, row.isListPrice)},
    ]} />
    <${Pages} shown=${rows.length} next=${body.next} after=${after} what="rows" />`;
}

