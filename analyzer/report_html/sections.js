/* The sections of the report, in order. Each names the members of the document that it shows, so
 * that what none shows becomes a table of its own. */

const note = (...text) => element("p", {class: "note"}, ...text);
const soft = (text) => element("p", {class: "soft"}, text);

function whole(rows, key) {
    return rows.reduce((sum, row) => sum + toNumber(row[key] || 0), 0);
}

/* ---- verdict ---- */

function factBox(title, value, detail, state) {
    return element("div", {class: state ? `fact ${state}` : "fact"},
        element("div", {class: "title"}, title), element("div", {class: "value"}, value),
        detail ? element("div", {class: "detail"}, detail) : null);
}

function classSums(devices) {
    const sums = {};
    const add = (kind, ns) => { sums[kind] = (sums[kind] || 0) + toNumber(ns || 0); };
    for (const device of devices) {
        for (const [kind, ns] of Object.entries(device.busy || {})) { add(kind, ns); }
        for (const [kind, ns] of Object.entries(device.idle || {})) { add(kind, ns); }
    }
    return sums;
}

function verdictFacts(doc) {
    const devices = doc.devices || [];
    const window = whole(devices, "window_ns");
    const sums = classSums(devices), part = (...kinds) =>
        kinds.reduce((sum, kind) => sum + (sums[kind] || 0), 0);
    const share = (...kinds) => shareText(part(...kinds), window);
    const unknown = part("unknown_wait", "unknown_unlinked", "unknown_clock");
    const residual = whole(devices, "residual_ns");
    const findings = (doc.findings || []).length;
    return element("div", {class: "factrow"},
        factBox("window", timeText(doc.window_ns || 0),
                `${devices.length} device${devices.length === 1 ? "" : "s"}`),
        factBox("busy", shareText(whole(devices, "busy_ns"), window), "of device \u00d7 window"),
        factBox("computing", share("compute_bound", "memory_bound", "latency_bound", "no_cost")),
        factBox("exposed communication", share("comm")),
        factBox("idle for the host", share("host_launch", "host_other", "host_sync")),
        unknown > 0 ? factBox("unknown", shareText(unknown, window),
                              "idle that nothing explains", "warn") : null,
        factBox("residual", timeText(residual), "of the classes",
                residual === 0 ? null : "bad"),
        factBox("findings", countText(findings), null, findings > 0 ? "warn" : null));
}

function verdictSection(doc, overview) {
    const box = element("section", {id: "verdict", class: "verdict"});
    const sentence = overview.verdict || "unknown";
    const colon = sentence.indexOf(": ");
    box.append(element("h1", null, colon > 0 ? sentence.slice(0, colon) : sentence),
               colon > 0 ? element("p", {class: "why"}, sentence.slice(colon + 2)) : "");
    const about = [doc.format ? `format ${doc.format}` : null,
                   doc.status ? `run ${doc.status}` : null].filter(Boolean).join(", ");
    if (about) { box.append(soft(about)); }
    if (doc.modelled) {
        box.append(element("p", {class: "label"}, element("b", null, "Simulated."),
            " Times come from a cost model, and so does every class below: nothing here was " +
            "measured on a real device."));
    }
    const cut = Object.entries(overview.left_out || {});
    if (cut.length > 0 || overview.left_out_nested > 0) {
        box.append(note("This page holds the first rows of long lists only; left out: ",
            cut.map(([name, count]) => `${countText(count)} of ${words(name)}`).join(", ") ||
            "some rows within others",
            ". ", element("code", null, "orrery analyze --json"), " has them all."));
    }
    if ((doc.devices || []).length > 0) { box.append(verdictFacts(doc)); }
    return box;
}

/* ---- over time ---- */

function timelineSection(doc, overview) {
    if (!(overview.devices || []).length || overview.cells === 0) { return null; }
    const chart = element("div", {class: "chart", id: "timeline-chart", role: "img",
                                  "aria-label": "Timeline: a lane for each device"});
    const button = element("button", {type: "button", class: "unzoom", disabled: true,
                                      onclick: unzoom}, "Whole window");
    const box = [
        element("div", {class: "tools"}, button, element("span", {class: "soft"},
            "drag to zoom; keys + \u2212 \u2190 \u2192 Esc")),
        chart,
    ];
    return {box, then: () => {
        const legend = timelineChart(chart, overview, doc.phases || []);
        const cell = timeText(overview.cell_ns);
        chart.after(legend, soft(`Each column is a cell of ${cell} or more, filled by its exact ` +
            "ns of each kind; the thin band below a lane is its phases."));
        if (overview.devices_left_out > 0) {
            legend.after(note(`${countText(overview.devices_left_out)} more devices are not ` +
                "drawn; the tables have them."));
        }
    }};
}

function partsOfDevice(device) {
    return [...Object.entries(device.busy || {}), ...Object.entries(device.idle || {})];
}

function wentSection(doc) {
    const devices = doc.devices || [];
    if (devices.length === 0) { return null; }
    const sums = classSums(devices), window = whole(devices, "window_ns");
    const rows = Object.entries(sums).filter(([, ns]) => ns > 0)
        .map(([kind, ns]) => ({kind, ns}));
    const bars = element("div", {class: "bars"}, devices.slice(0, 64).map((device) => [
        element("span", {class: "barname"}, device.name || `device ${device.id}`),
        stackedBar(partsOfDevice(device), device.window_ns || 1),
    ]));
    const table = new Table("Classes of all devices", [
        {title: "class", value: (row) => kindName(row.kind), swatch: (row) => row.kind},
        {title: "time", value: (row) => row.ns, kind: "time", numeric: true},
        {title: "share of device \u00d7 window", value: (row) => row.ns / window, kind: "ratio",
         numeric: true},
    ], rows, {id: "classes", sort: 1, rows: 20});
    return {keys: ["devices"], box: [
        bars, devices.length > 64 ? note(`${countText(devices.length - 64)} more devices`) : "",
        table.element,
        soft(`Every ns of ${countText(devices.length)} \u00d7 ${timeText(doc.window_ns || 0)} ` +
             `has one class; residual ${timeText(whole(devices, "residual_ns"))}.`)]};
}

function devicesSection(doc) {
    const devices = doc.devices || [];
    if (devices.length === 0) { return null; }
    const share = (key) => ({title: words(key.replace(/_ns$/, "")), numeric: true, kind: "ratio",
        value: (row) => toNumber(row.window_ns) > 0 ? toNumber(row[key]) / toNumber(row.window_ns)
                                                    : null});
    const launch = (key, title, options) => ({...column(key, title),
        value: (row) => row.launch ? row.launch[key] : null, ...options});
    return {box: [
        new Table("Devices", [
            column("id", "device", {kind: "plain"}), textColumn("name"),
            textColumn("verdict", "verdict", {text: (row) => words(row.verdict)}),
            column("ops"), share("busy_ns"), share("compute_ns"), share("exposed_comm_ns"),
            share("exposed_copy_ns"), textColumn("why", "why", {wide: true}),
        ], devices, {id: "devices"}).element,
        element("h3", null, "Is a device starved by the pace of its launches?"),
        new Table("Launches", [
            column("id", "device", {kind: "plain"}),
            {title: "launch-bound", value: (row) => row.launch ? row.launch.bound : null},
            launch("count", "N launch"), launch("latency_ns_p50", "L launch, median"),
            launch("latency_ns_p95", "p95"), launch("total_ns", "sum N \u00d7 L"),
            launch("launch_period_ns", "launch period"), launch("gap_period_ns", "gap period"),
            launch("feed_gaps", "gaps"),
            launch("graph_saving_ns", "a graph saves at most"),
            {title: "why", value: (row) => row.launch ? row.launch.why : null, wide: true},
        ], devices, {id: "launches"}).element]};
}

function phasesSection(doc, overview) {
    if (!(doc.phases || []).length) { return {keys: ["phases", "phase_cell_ns"]}; }
    return {keys: ["phases", "phase_cell_ns"], box: [new Table("Phases", [
        column("device", "device", {kind: "plain"}),
        column("begin_ns", "from", {value: (row) => minus(row.begin_ns, doc.begin_ns || 0)}),
        column("end_ns", "to", {value: (row) => minus(row.end_ns, doc.begin_ns || 0)}),
        {title: "length", value: (row) => minus(row.end_ns, row.begin_ns), kind: "time",
         numeric: true},
        {title: "class", value: (row) => words(row.class), swatch: (row) => `p-${row.class}`},
        column("share"),
        {title: "top operators", value: (row) => (row.top || []).map((top) => top.op).join(", "),
         wide: true},
        textColumn("why", "why", {wide: true}),
    ], doc.phases, {id: "phases"}).element,
        soft(`Cells of ${timeText(doc.phase_cell_ns || 0)}; times from the begin of the window.`)]};
}

/* ---- operators ---- */

function rooflineSection(doc) {
    const rows = doc.roofline || [];
    const keys = ["roofline", "kinds"];
    if (rows.length === 0) { return {keys}; }
    const total = whole(rows, "time_ns");
    const drawable = rooflinePoints(rows).length > 0;
    const chart = element("div", {class: "chart", id: "roofline-chart", role: "img",
                                  "aria-label": "Roofline: a point for each operator"});
    const say = element("p", {class: "hidden", "aria-live": "polite"});
    const cost = (key) => column(key, null, {
        value: (row) => row.class === "no_cost" ? null : row[key]});
    const table = new Table("Operators", [
        textColumn("op", "operator", {wide: true}), textColumn("kind"), textColumn("shape"),
        textColumn("dtype"), column("count"), column("time_ns", "time"),
        {title: "share", value: (row) => toNumber(row.time_ns) / (total || 1), kind: "ratio",
         numeric: true, note: "of the time of all operators, summed"},
        column("min_ns", "shortest"), column("max_ns", "longest"), cost("flops"), cost("bytes"),
        column("intensity", "FLOP/B", {kind: "plain"}), column("peak_fraction", "of the roof"),
        {title: "bound", value: (row) => words(row.class), swatch: (row) => row.class},
        textColumn("why", "why", {wide: true}),
    ], rows, {id: "operators", sort: 5});
    const kinds = (doc.kinds || []).some((row) => row.kind)
        ? [element("h3", null, "By kind"), genericTable("kinds", doc.kinds)] : [];
    const none = "No roofline: no operator of this trace has both a known cost and FLOPs.";
    return {keys, box: [drawable ? chart : note(none), say, table.element, ...kinds], then: () => {
        if (!drawable) { return; }
        const {hidden} = rooflineChart(chart, rows, say);
        const classes = [...new Set(rooflinePoints(rows).map((point) => point.row.class))];
        chart.after(element("ul", {class: "legend"}, classes.map((kind) =>
            element("li", null, swatch(kind), words(kind)))),
            soft("The area of a point is the operator's time." + (hidden > 0
                ? ` ${countText(hidden)} operators without FLOPs, or whose cost is unknown, are ` +
                  "in the table only." : "")));
    }};
}

function topKernelsSection(doc) {
    const kernels = doc.exact && doc.exact.top_kernels || [];
    if (kernels.length === 0) { return null; }
    return {box: [new Table("Top kernels", [
        textColumn("name", "kernel", {wide: true}), column("count"), column("sum_ns", "time"),
        {title: "mean", value: (row) => toNumber(row.sum_ns) / toNumber(row.count), kind: "time",
         numeric: true},
        column("min_ns", "shortest"), column("max_ns", "longest"),
    ], kernels, {id: "kernels", sort: 2}).element]};
}

/* ---- communication ---- */

function communicationSection(doc) {
    const keys = ["communication", "collectives", "pipelines"];
    const rows = doc.communication || [], collectives = doc.collectives || [];
    const pipelines = doc.pipelines || [];
    const box = [];
    if (rows.length > 0) {
        const exposed = whole(rows, "exposed_ns"), overlapped = whole(rows, "overlapped_ns");
        const waiting = whole(rows, "waiting_ns"), all = whole(rows, "time_ns");
        box.push(element("p", null, `Communication ${timeText(all)}: ${timeText(overlapped)} ` +
            `beside computation (${shareText(overlapped, all)}), ${timeText(exposed)} exposed, ` +
            `of which ${timeText(waiting)} waiting for another member. Exposed is not blocking: ` +
            "see the critical path."));
        box.push(stackedBar([["compute", overlapped], ["comm", exposed - waiting],
                             ["dep_wait", waiting]], all || 1));
        box.push(element("ul", {class: "legend"},
            [["compute", "overlapped"], ["comm", "exposed, moving"],
             ["dep_wait", "exposed, waiting"]].map(([kind, name]) =>
                element("li", null, swatch(kind), name))));
        box.push(new Table("Communication by axis and kind", [
            textColumn("axis", "axis", {wide: true}),
            textColumn("kind", "kind", {text: (row) => words(row.kind)}),
            column("count"), column("bytes"), column("ops"), column("time_ns", "time"),
            column("exposed_ns", "exposed"), column("overlapped_ns", "overlapped"),
            column("waiting_ns", "waiting"),
        ], rows, {id: "communication", sort: 6}).element);
    }
    if (collectives.length > 0) {
        box.push(element("h3", null, "Collectives"), new Table("Collectives", [
            textColumn("kind", "kind", {text: (row) => words(row.kind)}),
            textColumn("group", "group", {wide: true}), column("size", "members", {kind: "plain"}),
            column("bytes"), column("count"), column("transfer_ns", "transfer"),
            column("arrival_wait_ns", "waiting to arrive"), column("mismatched"),
            column("bus_bytes_per_s", "bus bandwidth"),
        ], collectives, {id: "collectives", sort: 5}).element);
    }
    if (pipelines.length > 0) {
        box.push(element("h3", null, "Pipelines"), genericTable("pipelines", pipelines));
    }
    return {keys, box: box.length > 0 ? box : null};
}

/* ---- critical path ---- */

function pathSection(doc) {
    const path = doc.critical_path;
    if (!path || toNumber(path.length_ns || 0) === 0) { return {keys: ["critical_path"]}; }
    const rows = Object.entries(path.kinds || {}).filter(([, ns]) => toNumber(ns) > 0)
        .map(([kind, ns]) => ({kind, ns}));
    const box = [
        path.broken ? note("A cycle of bad records was met; the rest of the path is unknown.") : "",
        stackedBar(Object.entries(path.kinds || {}), path.length_ns),
        new Table("Critical path by kind", [
            {title: "kind", value: (row) => kindName(row.kind), swatch: (row) => row.kind},
            {title: "time", value: (row) => row.ns, kind: "time", numeric: true},
            {title: "share of the path", numeric: true, kind: "ratio",
             value: (row) => toNumber(row.ns) / toNumber(path.length_ns)},
        ], rows, {id: "path-kinds", sort: 1}).element,
    ];
    if ((path.operators || []).length > 0) {
        box.push(element("h3", null, "Operators on it"), new Table("Operators on the path", [
            textColumn("op", "operator", {wide: true}), textColumn("shape"), textColumn("dtype"),
            column("count"), column("time_ns", "time on the path"),
            {title: "share of the path", numeric: true, kind: "ratio",
             value: (row) => toNumber(row.time_ns) / toNumber(path.length_ns)},
        ], path.operators, {id: "path-operators", sort: 4}).element);
    }
    if ((path.segments || []).length > 0) {
        const less = toNumber(path.segment_count) - path.segments.length;
        box.push(element("h3", null, "Segments"), new Table("Segments of the path", [
            column("begin_ns", "from", {value: (row) => minus(row.begin_ns, doc.begin_ns || 0)}),
            {title: "length", value: (row) => minus(row.end_ns, row.begin_ns), kind: "time",
             numeric: true},
            {title: "kind", value: (row) => kindName(row.kind), swatch: (row) => row.kind},
            {title: "what", value: (row) => row.op || row.call || null, absent: "", wide: true},
            column("device", "device", {kind: "plain", absent: ""}),
            textColumn("host"),
        ], path.segments, {id: "path-segments"}).element);
        if (less > 0) { box.push(soft(`${countText(less)} more segments are not listed.`)); }
    }
    return {keys: ["critical_path"], box};
}

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

function memorySection(doc) {
    const rows = (doc.memory || []).filter((row) => toNumber(row.peak_bytes) > 0 ||
                                                    toNumber(row.allocations || 0) > 0);
    if (rows.length === 0) { return {keys: ["memory"]}; }
    const roles = [...new Set(rows.flatMap((row) => Object.entries(row.roles || {})
        .filter(([, role]) => toNumber(role.bytes) > 0).map(([name]) => name)))];
    const lines = rows.flatMap((row) => (row.lines || []).map((line) =>
        ({device: row.device, ...line})));
    const box = [new Table("Peak memory", [
        column("device", "device", {kind: "plain"}), column("peak_bytes", "peak"),
        {...column("capacity_bytes", "capacity"),
         value: (row) => toNumber(row.capacity_bytes || 0) > 0 ? row.capacity_bytes : null},
        {title: "of capacity", numeric: true, kind: "ratio",
         value: (row) => toNumber(row.capacity_bytes || 0) > 0
             ? toNumber(row.peak_bytes) / toNumber(row.capacity_bytes) : null},
        column("reserved_bytes", "reserved then"), column("fragmentation_bytes", "fragmentation"),
        column("allocations"), column("live_at_end_bytes", "live at the end"),
    ], rows, {id: "memory"}).element];
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
        ], lines, {id: "memory-lines", sort: 4}).element);
    }
    return {keys: ["memory"], box};
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
        element("h3", null, "Beside it"), genericFacts(Object.fromEntries(Object.entries(timing)
            .filter(([key]) => !rows.some((row) => key.startsWith(row.name)) &&
                /sync|host|calls/.test(key)))),
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
    ["findings", "Findings", findingsSection],
    ["timeline", "Timeline", timelineSection],
    ["went", "Where the time went", wentSection],
    ["devices", "Devices and launches", devicesSection],
    ["operators", "Operators", rooflineSection],
    ["kernels", "Kernels", topKernelsSection],
    ["communication", "Communication", communicationSection],
    ["path", "Critical path", pathSection],
    ["memory", "Memory", memorySection],
    ["phases", "Phases", phasesSection],
    ["timing", "Intervals", timingSection],
];
const LAST_SECTIONS = [["exact", "Figures", exactSection]];
