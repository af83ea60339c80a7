/* The sections of the report, in order. Each names the members of the document that it shows, so
 * that what none shows becomes a table of its own. */

/* Why the trace cannot answer something: what the doctor says of it. */
function reasonFor(doc, name) {
    const found = doc.doctor && doc.doctor.answers && doc.doctor.answers[name];
    return found && found.answer !== "yes" && found.reason ? found.reason : "";
}

function unknownBox(doc, name) {
    const reason = reasonFor(doc, name);
    return reason ? [element("p", {class: "unknown"}, `unknown: ${reason}`)] : null;
}

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
    const findings = doc.findings || [], grave = findings.some((one) => one.severity !== "note" &&
                                                                      one.severity !== "info");
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
        factBox("findings", countText(findings.length), null, grave ? "warn" : null));
}

function verdictSection(doc, overview) {
    const box = element("section", {id: "verdict", class: "verdict"});
    /* "launch-bound: device 0: ...", or one sentence without a colon. */
    const sentence = overview.verdict || "unknown";
    const colon = sentence.search(/[:,] /);
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
    const cut = [...Object.entries(overview.left_out || {}),
                 ...Object.entries(overview.set_left_out || {})];
    if (cut.length > 0 || overview.left_out_nested > 0 || overview.texts_cut > 0) {
        box.append(note("This page holds the first rows of long lists only; left out: ",
            cut.map(([name, count]) => `${countText(count)} of ${words(name)}`).join(", ") ||
            "some rows within others, ends of long texts",
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
        const legend = timelineChart(chart, overview, doc.phases || [], doc.steps || []);
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
        {key: "ns", title: "time", value: (row) => row.ns, kind: "time", numeric: true},
        {title: "share of device \u00d7 window", value: (row) => row.ns / window, kind: "ratio",
         numeric: true},
    ], rows, {id: "classes", sort: "ns", rows: 20});
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

/* ---- steps and annotations ---- */

function stepsSection(doc) {
    const keys = ["steps", "steps_source", "step_count"], steps = doc.steps || [];
    if (steps.length === 0) {
        return {keys, box: doc.steps_source ? [element("p", {class: "unknown"},
            `unknown: ${doc.steps_source}`)] : null};
    }
    return {keys, box: [new Table("Steps", [
        textColumn("name"), column("number", "number", {kind: "plain"}),
        column("begin_ns", "from", {value: (row) => minus(row.begin_ns, doc.begin_ns || 0)}),
        column("length_ns", "length"),
    ], steps, {id: "steps"}).element,
        soft(`By ${doc.steps_source}; ${countText(doc.step_count || steps.length)} in all.`)]};
}

function annotationsSection(doc) {
    const keys = ["annotations", "annotations_by", "annotation_count"];
    const rows = doc.annotations || [];
    if (rows.length === 0) { return {keys}; }
    const idle = (row) => Object.values(row.idle || {}).reduce((sum, ns) => sum + toNumber(ns), 0);
    return {keys, box: [new Table("Annotations", [
        {key: "path", title: "annotation", wide: true, text: (row) =>
            "\u2003".repeat(Math.min(row.depth, 12)) + (row.path[row.path.length - 1] || "all"),
         value: (row) => row.path.join(" / ") || "all"},
        column("count"), column("ops"), column("total_ns", "device time"),
        column("self_ns", "of itself"),
        column("share", "share", {note: "of the window"}),
        column("exposed_comm_ns", "exposed communication"),
        {title: "idle", value: idle, kind: "time", numeric: true,
         note: "gaps that end in one of its ops"},
    ], rows, {id: "annotations", rows: 24}).element,
        soft(`By ${doc.annotations_by}; ` +
             `${countText(doc.annotation_count || rows.length)} in all.`)]};
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
