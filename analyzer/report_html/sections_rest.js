/* Sections about memory, counters, intervals and the trace itself; and the list of all. */

/* ---- memory ---- */

function memoryBar(row) {
    const capacity = toNumber(row.capacity_bytes || 0), peak = toNumber(row.peak_bytes);
    const size = Math.max(capacity, peak, toNumber(row.reserved_peak_bytes || 0)) || 1;
    const roles = Object.entries(row.roles || {}).filter(([, role]) => toNumber(role.bytes) > 0);
    return element("div", {class: "stack", role: "img",
        "aria-label": `peak ${amountText(peak, "B")}`},
        roles.map(([name, role], index) => element("span", {
            style: `width:${100 * toNumber(role.bytes) / size}%;` +
                `background:var(--line-${index % 8})`,
            title: `${words(name)}: ${amountText(role.bytes, "B")}`})));
}

const isMemory = (counter) => /bytes|memory/i.test(counter.name);

/* Series of a chart from counters of the overview; devices that count alike are one line. */
function counterSeries(overview, chosen, text) {
    const alike = new Map();
    for (const {device, name, points} of chosen) {
        const key = `${name} ${JSON.stringify(points)}`;
        const one = alike.get(key) || {devices: [], name, points};
        one.devices.push(device);
        alike.set(key, one);
    }
    return [...alike.values()].map(({devices, name, points}) => ({
        name: `${name}, device${devices.length > 1 ? "s" : ""} ${rangesText(devices)}`, text,
        points: points.filter(([, value]) => isKnown(value))
            .map(([cell, value]) => [cell * toNumber(overview.cell_ns), value]),
    }));
}

/* 0, 1, 2, 5 as "0-2, 5". */
function rangesText(numbers) {
    const parts = [];
    for (const number of numbers) {
        const last = parts[parts.length - 1];
        if (last && last[1] + 1 === number) {
            last[1] = number;
        } else {
            parts.push([number, number]);
        }
    }
    return parts.map(([from, to]) => from === to ? from : `${from}\u2013${to}`).join(", ");
}

const MEMORY_KEYS = ["memory", "memory_timeline"];
const memoryCounters = (overview) => (overview.counters || []).filter(isMemory);

const LINES = 8;

/* A chart box, drawn once it is in the page. */
function counterChart(overview, chosen, label, text, tick) {
    const chart = element("div", {class: "chart", role: "img", "aria-label": label});
    return {chart, then: () =>
        stepChart(chart, counterSeries(overview, chosen, text).slice(0, LINES), tick, 200)};
}

function memorySection(doc, overview) {
    const rows = (doc.memory || []).filter((row) => toNumber(row.peak_bytes) > 0 ||
                                                    toNumber(row.allocations || 0) > 0);
    const counters = memoryCounters(overview);
    if (rows.length === 0 && counters.length === 0) {
        return {keys: MEMORY_KEYS, box: unknownBox(doc, "memory")};
    }
    const roles = [...new Set(rows.flatMap((row) => Object.entries(row.roles || {})
        .filter(([, role]) => toNumber(role.bytes) > 0).map(([name]) => name)))];
    const lines = rows.flatMap((row) => (row.lines || []).map((line) =>
        ({device: row.device, ...line})));
    const drawn = counters.length > 0 ? counterChart(overview, counters, "Memory over time",
        (value) => amountText(value, "B"), amountTicks("B")) : null;
    const box = drawn ? [drawn.chart, soft(`The largest value of each cell; at most ${LINES} ` +
        "lines, devices that are alike in one.")] : [];
    if (rows.length > 0) { box.push(new Table("Peak memory", [
        column("device", "device", {kind: "plain"}), column("peak_bytes", "peak"),
        {...column("capacity_bytes", "capacity"),
         value: (row) => toNumber(row.capacity_bytes || 0) > 0 ? row.capacity_bytes : null},
        {title: "of capacity", numeric: true, kind: "ratio",
         value: (row) => toNumber(row.capacity_bytes || 0) > 0
             ? toNumber(row.peak_bytes) / toNumber(row.capacity_bytes) : null},
        column("reserved_bytes", "reserved then"), column("fragmentation_bytes", "fragmentation"),
        column("allocations"), column("live_at_end_bytes", "live at the end"),
    ], rows, {id: "memory"}).element); }
    if (roles.length > 0) {
        box.push(element("h3", null, "At the peak, by role"), element("div", {class: "bars"},
            rows.slice(0, 64).map((row) => [
                element("span", {class: "barname"}, `device ${row.device}`), memoryBar(row)])),
            new Table("Roles", [{title: "device", value: (row) => row.device, numeric: true},
                ...roles.map((name) => ({title: name, numeric: true, kind: "bytes",
                    value: (row) => row.roles[name] ? row.roles[name].bytes : null}))],
                rows, {id: "memory-roles"}).element);
    }
    if (lines.length > 0) {
        box.push(element("h3", null, "At the peak, by line"), new Table("Lines", [
            column("device", "device", {kind: "plain"}),
            textColumn("site", "line", {absent: "unknown", wide: true}), textColumn("role"),
            column("count", "buffers"), column("bytes"),
        ], lines, {id: "memory-lines", sort: "bytes"}).element);
    }
    if ((doc.memory_timeline || []).length > 0) {
        box.push(element("h3", null, "As counted"), new Table("Memory counters", [
            column("device", "device", {kind: "plain"}), textColumn("counter"),
            column("peak_bytes", "peak"),
            column("peak_ns", "at", {value: (row) => minus(row.peak_ns, doc.begin_ns || 0)}),
            column("last_bytes", "at the end"), column("samples"),
        ], doc.memory_timeline, {id: "memory-counters"}).element);
    }
    return {keys: MEMORY_KEYS, box, then: drawn ? drawn.then : null};
}

/* ---- queue depth ---- */

function queueSeries(doc) {
    return doc.queue_depth.map((row) => ({
        name: `device ${row.device}`, text: countText,
        points: (row.cell_max || []).map((value, cell) =>
            [minus(row.begin_ns, doc.begin_ns || 0) + cell * toNumber(row.cell_ns), value])
            .filter(([, value]) => isKnown(value)),
    })).slice(0, LINES);
}

function queueSection(doc) {
    const rows = (doc.queue_depth || []).filter((row) => isKnown(row.max));
    if (rows.length === 0) { return {keys: ["queue_depth"]}; }
    const chart = element("div", {class: "chart", role: "img", "aria-label": "Queue depth"});
    return {keys: ["queue_depth"], box: [chart,
        soft("Commands that the device was given and has not finished: the most in each cell" +
             (rows.length > LINES ? `; the first ${LINES} devices.` : ".")),
        new Table("Queue depth", [
            column("device", "device", {kind: "plain"}), column("max", "most"),
            column("p50", "median"), column("p95"), column("mean"),
            column("empty_ns", "empty for"), column("linked_ops", "ops"),
            column("initial", "queued before the begin"),
        ], rows, {id: "queue-depth"}).element],
        then: () => stepChart(chart, queueSeries(doc), (plot, splits) =>
            splits.map((value) => isKnown(value) ? countText(value) : ""), 170)};
}

function countersSection(doc, overview) {
    const others = (overview.counters || []).filter((counter) => !isMemory(counter));
    if (others.length === 0) { return null; }
    const drawn = counterChart(overview, others, "Counters over time", countText, (plot, splits) =>
        splits.map((value) => isKnown(value) ? countText(value) : ""));
    return {box: [drawn.chart], then: drawn.then};
}

/* ---- the rest ---- */

function timingSection(doc) {
    const timing = doc.timing;
    if (!timing || !toNumber(timing.ops || 0)) { return {keys: ["timing", "idle_by_stream"]}; }
    const rows = [["submission", "submission_ns"], ["queued: behind its stream", "stream_wait_ns"],
                  ["queued: waits for others", "dep_wait_ns"], ["queued: dispatch", "dispatch_ns"],
                  ["device service", "device_ns"]]
        .map(([name, key]) => ({name, ns: timing[key]}));
    return {keys: ["timing", "idle_by_stream"], box: [
        new Table("Intervals of commands", [
            {title: "interval", value: (row) => row.name},
            {title: "time", value: (row) => row.ns, kind: "time", numeric: true},
            {title: "share", numeric: true, kind: "ratio",
             value: (row) => isKnown(row.ns) && toNumber(timing.total_ns) > 0
                 ? toNumber(row.ns) / toNumber(timing.total_ns) : null},
        ], rows, {id: "timing"}).element,
        soft(`${countText(timing.ops)} ops from enqueue to finish, ` +
             `${timeText(timing.total_ns)} in all; residual ${timeText(timing.residual_ns || 0)}.`),
        isKnown(timing.dep_wait_ns) ? "" :
            note(`Waits for others are unknown: ${reasonFor(doc, "dependencies") || "no record"}.`),
        isKnown(timing.sync_ns) ? "" :
            note(`Synchronisation is unknown: ${reasonFor(doc, "sync") || "no record"}.`),
        element("h3", null, "Beside it"), genericFacts(Object.fromEntries(Object.entries(timing)
            .filter(([key]) => /sync|host|calls/.test(key)))),
        doc.idle_by_stream ? element("h3", null, "Idle within streams, summed over them") : "",
        doc.idle_by_stream ? genericFacts(Object.fromEntries(Object.entries(doc.idle_by_stream)
            .map(([key, ns]) => [`${key}_ns`, ns]))) : ""]};
}

function findingsSection(doc) {
    const rows = doc.findings || [];
    if (rows.length === 0) { return {keys: ["findings"]}; }
    const rank = {error: 0, warning: 1, info: 2};
    return {keys: ["findings"], box: [new Table("Findings", [
        {title: "severity", value: (row) => row.severity},
        textColumn("kind", "kind", {text: (row) => words(row.kind)}),
        textColumn("message", "message", {wide: true}), textColumn("fix", "fix", {wide: true}),
        column("cmd_a", "command", {kind: "plain", absent: ""}),
        column("cmd_b", "and", {kind: "plain", absent: ""}),
    ], [...rows].sort((a, b) => (rank[a.severity] ?? 3) - (rank[b.severity] ?? 3)),
        {id: "findings"}).element]};
}

function doctorSection(doc) {
    const doctor = doc.doctor;
    if (!doctor) { return {keys: ["doctor"]}; }
    const answers = Object.entries(doctor.answers || {})
        .map(([name, {answer, reason}]) => ({name, answer, reason}));
    const box = [];
    if ((doctor.checks || []).length > 0) {
        box.push(new Table("Checks", [
            {title: "severity", value: (row) => row.severity},
            textColumn("kind", "check", {text: (row) => words(row.kind)}),
            textColumn("message", "message", {wide: true}),
            textColumn("meaning", "what it means", {wide: true}),
            column("count"), column("of", "of", {absent: ""}),
            column("worst_ns", "worst", {absent: ""}),
        ], doctor.checks, {id: "doctor"}).element);
    } else {
        box.push(soft("Nothing is wrong with this trace, as far as it can be seen."));
    }
    if (answers.length > 0) {
        box.push(element("h3", null, "What it can answer"), new Table("Answers", [
            {title: "question", value: (row) => words(row.name)},
            {title: "answer", value: (row) => row.answer},
            textColumn("reason", "reason", {wide: true}),
        ], answers, {id: "answers", rows: 30}).element);
    }
    return {keys: ["doctor"], box};
}

function exactSection(doc) {
    const keys = ["exact", "options"];
    if (!doc.exact) { return {keys}; }
    const {devices, top_kernels: kernels, split, ...rest} = doc.exact;
    const box = element("details", null, element("summary", null, "All figures"),
                        genericFacts(rest));
    if (split) { box.append(element("h3", null, "split"), genericFacts(split)); }
    if (devices) {
        box.append(element("h3", null, "devices"), genericTable("exact devices", devices));
    }
    if (doc.options) {
        box.append(element("h3", null, "Options of this analysis"), genericFacts(doc.options));
    }
    return {keys, box: [box]};
}

/* [id, title, function]; the verdict stands before all of them. */
const SECTIONS = [
    ["timeline", "Timeline", timelineSection],
    ["went", "Where the time went", wentSection],
    ["findings", "Findings", findingsSection],
    ["devices", "Devices and launches", devicesSection],
    ["operators", "Operators", rooflineSection],
    ["kernels", "Kernels", topKernelsSection],
    ["communication", "Communication", communicationSection],
    ["ranks", "Ranks", ranksSection],
    ["path", "Critical path", pathSection],
    ["memory", "Memory", memorySection],
    ["counters", "Counters", countersSection],
    ["queue", "Queue depth", queueSection],
    ["steps", "Steps", stepsSection],
    ["annotations", "Annotations", annotationsSection],
    ["phases", "Phases", phasesSection],
    ["timing", "Intervals", timingSection],
];
const LAST_SECTIONS = [
    ["doctor", "The trace itself", doctorSection],
    ["exact", "Figures", exactSection],
];
