/* Sections about operators, communication, ranks and the critical path. */

/* ---- operators ---- */

function operatorTable(name, id, rows) {
    const total = whole(rows, "time_ns");
    const anyCost = rows.some((row) => row.class !== "no_cost");
    const cost = (key, title, options) => anyCost ? [column(key, title, {
        value: (row) => row.class === "no_cost" ? null : row[key], ...options})] : [];
    return new Table(name, [
        textColumn("op", "operator", {wide: true}), textColumn("kind"),
        textColumn("shape", "shape", {wide: rows.some((row) => (row.shape || "").length > 40)}),
        textColumn("dtype"), column("count"), column("time_ns", "time"),
        {title: "share", value: (row) => toNumber(row.time_ns) / (total || 1), kind: "ratio",
         numeric: true, note: "of the time of all rows, summed"},
        column("min_ns", "shortest"), column("max_ns", "longest"), ...cost("flops"),
        ...cost("bytes"), ...cost("intensity", "FLOP/B", {kind: "plain"}),
        ...cost("peak_fraction", "of the roof"),
        {title: "bound", value: (row) => words(row.class), swatch: (row) => row.class},
        textColumn("main_kernel", "most by kernel", {wide: true}),
        textColumn("why", "why", {wide: true}),
    ], rows, {id, sort: "time_ns"}).element;
}

/* "matrix bf16 989 TFLOP/s, ..." */
function peaksText(peaks) {
    return Object.entries(peaks || {}).map(([dtype, value]) =>
        `${dtype} ${amountText(value, "FLOP/s")}`).join(", ");
}

function peaksBox(peaks) {
    if (!(peaks || []).length) { return []; }
    return [element("h3", null, "Peaks that the roofline rests on"), new Table("Peaks", [
        column("device", "device", {kind: "plain"}), textColumn("name"),
        column("bandwidth_bytes_per_s", "bandwidth"),
        {title: "matrix", value: (row) => peaksText(row.matrix) || null, wide: true},
        {title: "vector", value: (row) => peaksText(row.vector) || null, wide: true},
        textColumn("source", "source", {wide: true}),
    ], peaks, {id: "peaks"}).element];
}

function rooflineSection(doc) {
    const rows = doc.roofline || [];
    const keys = ["roofline", "kinds", "peaks"];
    if (rows.length === 0) { return {keys}; }
    /* Operators of a framework, and the kernels that they are made of, are apart. */
    const operators = rows.filter((row) => row.level !== "kernel");
    const kernels = rows.filter((row) => row.level === "kernel");
    const points = rooflinePoints(operators).length > 0 ? operators : kernels;
    const drawable = rooflinePoints(points).length > 0;
    const chart = element("div", {class: "chart", id: "roofline-chart", role: "img",
                                  "aria-label": "Roofline: a point for each operator"});
    const say = element("p", {class: "hidden", "aria-live": "polite"});
    const kinds = (doc.kinds || []).some((row) => row.kind)
        ? [element("h3", null, "By kind"), genericTable("kinds", doc.kinds.map((row) =>
            ({...row, kind: row.kind || "other"})))] : [];
    const why = reasonFor(doc, "roofline");
    const none = why ? `The roofline is unknown: ${why}.`
                     : "No operator of this trace has both a known cost and FLOPs: no roofline.";
    const tables = operators.length > 0 ? [operatorTable("Operators", "operators", operators)] : [];
    if (kernels.length > 0) {
        if (tables.length > 0) { tables.push(element("h3", null, "Kernels by their grid")); }
        tables.push(operatorTable("Kernels by their grid",
                                  tables.length > 0 ? "kernels-by-grid" : "operators", kernels));
    }
    return {keys, box: [drawable ? chart : note(none), say, ...tables, ...kinds,
                        ...peaksBox(doc.peaks)], then: () => {
        if (!drawable) { return; }
        const {hidden} = rooflineChart(chart, points, say);
        const classes = [...new Set(rooflinePoints(points).map((point) => point.row.class))];
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
    ], kernels, {id: "kernels", sort: "sum_ns"}).element]};
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
                             ["dep_wait", waiting]], all || 1, (kind) =>
            ({compute: "overlapped", comm: "exposed, moving",
              dep_wait: "exposed, waiting"})[kind]));
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
        ], rows, {id: "communication", sort: "exposed_ns"}).element);
    }
    if (collectives.length > 0) {
        box.push(element("h3", null, "Collectives"), new Table("Collectives", [
            textColumn("kind", "kind", {text: (row) => words(row.kind)}),
            textColumn("group", "group", {wide: true}), column("size", "members", {kind: "plain"}),
            column("bytes"), column("count"), column("transfer_ns", "transfer"),
            column("arrival_wait_ns", "waiting to arrive"), column("mismatched"),
            column("bus_bytes_per_s", "bus bandwidth"),
        ], collectives, {id: "collectives", sort: "transfer_ns"}).element);
    }
    if (pipelines.length > 0) {
        box.push(element("h3", null, "Pipelines"), genericTable("pipelines", pipelines));
    }
    return {keys, box: box.length > 0 ? box : unknownBox(doc, "communication")};
}

/* ---- ranks ---- */

function clockBox(clock) {
    if (!clock) { return []; }
    const box = [element("h3", null, "Clocks")];
    if (!clock.aligned) { box.push(note(`Clocks are not aligned: ${clock.why || "unknown"}.`)); }
    if (clock.one_clock) { box.push(soft("All ranks are of one clock.")); }
    if ((clock.offsets || []).length > 0) {
        box.push(new Table("Clock offsets", [
            column("rank", "rank", {kind: "plain"}),
            column("reference", "against", {kind: "plain"}),
            column("offset_ns", "offset"), column("collectives"),
            column("residual_p05_ns", "residual p05"), column("residual_p95_ns", "p95"),
            column("residual_max_ns", "largest"),
        ], clock.offsets, {id: "clock", rows: 16}).element);
        box.push(soft(`Median transfer ${valueText(clock.median_transfer_ns, "time")}: alignment ` +
            "with larger residuals is refused."));
    }
    return box;
}

function rankPathBox(path) {
    if (!path || !(path.ranks || []).length) { return []; }
    return [element("h3", null, "Critical path by rank"), new Table("Critical path by rank", [
        column("rank", "rank", {kind: "plain"}), column("time_ns", "time on the path"),
        {title: "share of the path", numeric: true, kind: "ratio",
         value: (row) => toNumber(row.time_ns) / (toNumber(path.length_ns) || 1)},
    ], path.ranks, {id: "rank-path", sort: "time_ns"}).element,
        soft(`${countText(path.hops || 0)} changes of rank; residual ` +
             `${timeText(path.residual_ns || 0)}.`)];
}

function matchingText(matching) {
    const parts = [`${countText(matching.matched_ops)} of ${countText(matching.comm_ops)} ` +
        `communication ops are in ${countText(matching.collectives)} collectives`];
    if (matching.mismatched) { parts.push(`${countText(matching.mismatched)} mismatched`); }
    if (matching.all_to_all) {
        parts.push(`${countText(matching.all_to_all)} are sends and receives without peers, ` +
                   "taken for an all-to-all");
    }
    if (matching.refused) { parts.push(`refused: ${matching.refused}`); }
    return parts.join("; ") + ".";
}

function ranksSection(doc) {
    const keys = ["rank_analysis", "rank_set", "rank_documents", "set"];
    const ranks = doc.rank_analysis;
    if (!ranks) { return {keys}; }
    const box = [];
    if (ranks.straggler_why) { box.push(element("p", null, ranks.straggler_why + ".")); }
    if ((ranks.missing || []).length > 0) {
        box.push(note(`Missing ranks: ${ranks.missing.join(", ")}.`));
    }
    for (const text of ranks.notes || []) { box.push(note(String(text))); }
    if ((ranks.stragglers || []).length > 0) {
        box.push(new Table("Stragglers", [
            column("rank", "rank", {kind: "plain"}), column("times_last", "times last"),
            column("collectives"), column("wait_caused_ns", "wait caused"),
            column("wait_suffered_ns", "wait suffered"), column("comm_ns", "in collectives"),
            column("transfer_ns", "of that transfer"),
        ], ranks.stragglers, {id: "stragglers", sort: "times_last", rows: 16}).element);
    }
    if ((ranks.collectives || []).length > 0) {
        box.push(element("h3", null, "Collectives of the ranks"), new Table("Matched collectives", [
            textColumn("kind", "kind", {text: (row) => words(row.kind)}), textColumn("group"),
            column("seq", "seq", {kind: "plain"}), column("members", "ranks"),
            column("last_rank", "last", {kind: "plain"}), column("wait_ns", "waiting"),
            column("caused_ns", "caused by the last"), column("transfer_ns", "transfer"),
            column("start_spread_ns", "spread of starts"),
            textColumn("matched_by", "matched by", {wide: true}),
            {title: "mismatched", value: (row) => row.mismatched},
        ], ranks.collectives, {id: "rank-collectives", sort: "wait_ns"}).element);
    }
    if (ranks.matching) { box.push(soft(matchingText(ranks.matching))); }
    if (ranks.matching && (ranks.matching.refusals || []).length > 0) {
        box.push(genericTable("refusals", ranks.matching.refusals));
    }
    box.push(...clockBox(ranks.clock), ...rankPathBox(ranks.critical_path));
    if ((doc.rank_documents || []).length > 0) {
        box.push(element("h3", null, "Each rank alone"), genericTable("rank documents",
            doc.rank_documents.map(({file, window_ns: window, devices, exact}) => ({
                file: String(file).split("/").pop(), window_ns: window,
                ops: exact ? exact.gpu_ops : null, kernels: exact ? exact.kernels : null,
                unlinked: exact ? exact.unlinked : null,
                verdict: (devices || []).map((device) => words(device.verdict)).join(", "),
            }))));
    }
    return {keys, box};
}

/* ---- critical path ---- */

/* How much later a command could end without the whole ending later. */
function slackBox(slack) {
    if (slack === undefined) { return []; }
    const box = [element("h3", null, "Slack")];
    if (slack === null) {
        return [...box, element("p", {class: "unknown"},
                                "unknown: the trace is larger than this is computed for")];
    }
    if (isKnown(slack.ops_without)) {
        box.push(soft(`${countText(slack.ops_without)} of ${countText(slack.ops)} ops have none: ` +
            "any of them made longer makes the whole longer." + (toNumber(slack.replay_error_ns)
            ? ` Replayed, the graph of the trace misses it by ${timeText(slack.replay_error_ns)}.`
            : "")));
    }
    if ((slack.operators || []).length > 0) {
        box.push(new Table("Slack by operator", [
            textColumn("op", "operator", {wide: true}), textColumn("shape"), column("count"),
            column("without_slack", "without slack"),
            column("time_without_slack_ns", "time of those"),
            column("least_slack_ns", "least slack", {absent: "nothing depends on it"}),
        ], slack.operators, {id: "slack", sort: "time_without_slack_ns"}).element);
    }
    if ((slack.commands || []).length > 0) {
        box.push(genericTable("slack of commands", slack.commands));
    }
    return box;
}

function pathSection(doc) {
    const path = doc.critical_path;
    if (!path || toNumber(path.length_ns || 0) === 0) { return {keys: ["critical_path"]}; }
    const rows = Object.entries(path.kinds || {}).filter(([, ns]) => toNumber(ns) > 0)
        .map(([kind, ns]) => ({kind, ns}));
    const box = [
        path.broken ? note("A cycle of bad records was met; the rest of the path is unknown.") : "",
        stackedBar(Object.entries(path.kinds || {}), path.length_ns, pathName),
        new Table("Critical path by kind", [
            {title: "kind", value: (row) => pathName(row.kind), swatch: (row) => row.kind},
            {key: "ns", title: "time", value: (row) => row.ns, kind: "time", numeric: true},
            {title: "share of the path", numeric: true, kind: "ratio",
             value: (row) => toNumber(row.ns) / toNumber(path.length_ns)},
        ], rows, {id: "path-kinds", sort: "ns"}).element,
    ];
    if ((path.operators || []).length > 0) {
        box.push(element("h3", null, "Operators on it"), new Table("Operators on the path", [
            textColumn("op", "operator", {wide: true}), textColumn("shape"), textColumn("dtype"),
            column("count"), column("time_ns", "time on the path"),
            {title: "share of the path", numeric: true, kind: "ratio",
             value: (row) => toNumber(row.time_ns) / toNumber(path.length_ns)},
        ], path.operators, {id: "path-operators", sort: "time_ns"}).element);
    }
    box.push(...slackBox(path.slack));
    if ((path.segments || []).length > 0) {
        const less = toNumber(path.segment_count) - path.segments.length;
        box.push(element("h3", null, "Segments"), new Table("Segments of the path", [
            column("begin_ns", "from", {value: (row) => minus(row.begin_ns, doc.begin_ns || 0)}),
            {title: "length", value: (row) => minus(row.end_ns, row.begin_ns), kind: "time",
             numeric: true},
            {title: "kind", value: (row) => pathName(row.kind), swatch: (row) => row.kind},
            {title: "what", value: (row) => row.op || row.call || null, absent: "", wide: true},
            column("device", "device", {kind: "plain", absent: ""}),
            textColumn("host"),
        ], path.segments, {id: "path-segments"}).element);
        if (less > 0) { box.push(soft(`${countText(less)} more segments are not listed.`)); }
    }
    return {keys: ["critical_path"], box};
}
