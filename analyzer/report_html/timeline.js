/* The timeline: a lane for each device, its cells filled by what the time went into, its phases
 * below; and the critical path. */

const KIND_NAMES = {
    compute_bound: "compute-bound", memory_bound: "memory-bound", latency_bound: "latency-bound",
    no_cost: "compute, cost unknown", comm: "communication, exposed", copy: "copy, exposed",
    profiler_overhead: "idle: profiler overhead", host_sync: "idle: host waits",
    host_launch: "idle: host launches", host_other: "idle: host, other",
    dep_wait: "idle: waits for another device or host", dispatch: "idle: dispatch",
    unknown_wait: "idle: unknown wait", unknown_unlinked: "idle: unknown, op without a call",
    unknown_clock: "idle: unknown, clock violation", before_first: "before the first op",
    after_last: "after the last op", compute: "compute", exposed_comm: "communication, exposed",
    exposed_copy: "copy, exposed", launch: "launch", host: "host", sync: "host waits",
    unknown: "unknown", wait: "waits",
};
const kindName = (kind) => KIND_NAMES[kind] || words(kind);
/* On the critical path nothing is idle: it waits. */
const pathName = (kind) => kindName(kind).replace(/^idle: |, exposed$/g, "");

const LANE = 22, BAND = 6, GAP = 8, STEP = 12;

/* Lanes from top to bottom: {name, cells, kinds, phases, top, height}. */
function timelineLanes(overview, phases, steps) {
    const lanes = [];
    if (steps.length > 0) {
        lanes.push({name: "steps", ns: {}, kinds: [], phases: [], steps, size: STEP});
    }
    const path = overview.path && overview.path.ns || {};
    if (Object.keys(path).length > 0) {
        lanes.push({name: "critical path", ns: path, kinds: Object.keys(path), phases: []});
    }
    for (const device of overview.devices) {
        lanes.push({name: device.name || `device ${device.id}`, id: device.id, ns: device.ns,
                    kinds: overview.kinds.filter((kind) => device.ns[kind]),
                    phases: phases.filter((phase) => phase.device === device.id)});
    }
    let top = 2;
    for (const lane of lanes) {
        lane.top = top;
        lane.size = lane.size || LANE;
        top += lane.size + (lane.phases.length > 0 ? BAND : 0) + GAP;
    }
    return {lanes, height: top};
}

function sumCells(values, from, to) {
    let sum = 0;
    for (let index = from; index < to; index++) { sum += toNumber(values[index] || 0); }
    return sum;
}

function drawLane(plot, lane, overview, first, last) {
    const {ctx, bbox} = plot, ratio = devicePixelRatio;
    const cell = toNumber(overview.cell_ns);
    const at = (ns) => plot.valToPos(ns, "x", true);
    const perPixel = (at(cell) - at(0)) / ratio;
    const group = Math.max(1, Math.floor(1 / perPixel));
    const top = bbox.top + lane.top * ratio, height = LANE * ratio;
    for (let from = first; from < last; from += group) {
        const to = Math.min(from + group, overview.cells);
        const left = Math.round(at(from * cell));
        const right = Math.round(at(Math.min(to * cell, charts.window)));
        const length = Math.min(to * cell, charts.window) - from * cell;
        let y = top + height;
        for (const kind of lane.kinds) {
            const part = height * sumCells(lane.ns[kind], from, to) / length;
            if (part > 0) {
                ctx.fillStyle = lane.paints[kind];
                ctx.fillRect(left, y - part, Math.max(ratio, right - left), part);
                y -= part;
            }
        }
    }
}

function drawPhases(plot, lane, begin) {
    const {ctx, bbox} = plot, ratio = devicePixelRatio;
    const top = bbox.top + (lane.top + LANE + 1) * ratio;
    for (const phase of lane.phases) {
        const left = plot.valToPos(minus(phase.begin_ns, begin), "x", true);
        const right = plot.valToPos(minus(phase.end_ns, begin), "x", true);
        if (right < bbox.left || left > bbox.left + bbox.width) { continue; }
        ctx.fillStyle = kindPaint(`p-${phase.class}`);
        ctx.fillRect(left, top, Math.max(ratio, right - left - ratio), (BAND - 2) * ratio);
    }
}

function drawSteps(plot, lane, begin) {
    const {ctx, bbox} = plot, ratio = devicePixelRatio;
    const top = bbox.top + lane.top * ratio, height = STEP * ratio;
    ctx.font = `${9 * ratio}px ${paint("--font")}`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    lane.steps.forEach((step, index) => {
        const left = plot.valToPos(minus(step.begin_ns, begin), "x", true);
        const right = plot.valToPos(minus(step.end_ns, begin), "x", true);
        ctx.fillStyle = paint(index % 2 ? "--line" : "--k-dispatch");
        ctx.fillRect(left, top, Math.max(ratio, right - left - ratio), height);
        if (right - left > ctx.measureText(step.name).width + 8 * ratio) {
            ctx.fillStyle = paint("--text");
            ctx.fillText(step.name, Math.max(left, bbox.left) + 4 * ratio, top + height / 2);
        }
    });
}

function drawTimeline(plot, lanes, overview) {
    const {ctx, bbox} = plot, cell = toNumber(overview.cell_ns);
    const first = Math.max(0, Math.floor(plot.scales.x.min / cell));
    const last = Math.min(overview.cells, Math.ceil(plot.scales.x.max / cell));
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const lane of lanes) {
        lane.paints = Object.fromEntries(lane.kinds.map((kind) => [kind, kindPaint(kind)]));
        drawLane(plot, lane, overview, first, last);
        drawPhases(plot, lane, overview.begin_ns);
        if (lane.steps) { drawSteps(plot, lane, overview.begin_ns); }
    }
    ctx.restore();
}

function stepTip(lane, overview, ns) {
    const step = lane.steps.find((one) => minus(one.begin_ns, overview.begin_ns) <= ns &&
                                          minus(one.end_ns, overview.begin_ns) > ns);
    return step ? [element("b", null, step.name),
                   element("div", null, timeText(minus(step.end_ns, step.begin_ns)))]
                : [element("b", null, "between steps")];
}

function timelineTip(lane, overview, ns) {
    if (lane.steps) { return stepTip(lane, overview, ns); }
    const cell = Math.max(0, Math.min(overview.cells - 1,
                                      Math.floor(ns / toNumber(overview.cell_ns))));
    const from = cell * toNumber(overview.cell_ns);
    const to = Math.min(from + toNumber(overview.cell_ns), charts.window);
    const parts = lane.kinds.map((kind) => [kind, sumCells(lane.ns[kind], cell, cell + 1)])
        .filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]);
    const phase = lane.phases.find((one) => minus(one.begin_ns, overview.begin_ns) <= ns &&
                                            minus(one.end_ns, overview.begin_ns) > ns);
    const name = lane.id === undefined ? pathName : kindName;
    return [
        element("b", null, lane.name),
        element("div", null, `${timeText(from)} to ${timeText(to)}`),
        ...parts.map(([kind, sum]) => element("div", null, swatch(kind),
            `${name(kind)}: ${timeText(sum)}, ${shareText(sum, to - from)}`)),
        phase ? element("div", {class: "soft"}, `phase: ${words(phase.class)}: ${phase.why}`) : "",
    ];
}

function legendOf(title, lanes, name) {
    const used = new Set(lanes.flatMap((lane) => lane.kinds));
    const order = Object.keys(KIND_NAMES);
    return element("ul", {class: "legend", "aria-label": title},
        element("li", null, element("b", null, title)), [...used]
            .sort((a, b) => order.indexOf(a) - order.indexOf(b))
            .map((kind) => element("li", null, swatch(kind), name(kind))));
}

function timelineLegend(lanes) {
    const isDevice = (lane) => lane.id !== undefined;
    const legend = [legendOf("devices", lanes.filter(isDevice), kindName)];
    if (lanes.some((lane) => !isDevice(lane) && !lane.steps)) {
        legend.push(legendOf("critical path",
                             lanes.filter((lane) => !isDevice(lane) && !lane.steps), pathName));
    }
    return element("div", null, legend);
}

function timelineChart(box, overview, phases, steps) {
    const {lanes, height} = timelineLanes(overview, phases, steps);
    const middles = lanes.map((lane) => height - lane.top - lane.size / 2);
    const chart = addChart(box, height + 44, (width) => timedOptions({
        padding: [0, 8, 0, 0],
        scales: {x: timeScale(), y: {range: [0, height]}},
        axes: [axis({values: timeTicks, space: width < 500 ? 70 : 90, size: 36}),
               axis({size: width < 500 ? 56 : 92, splits: () => middles, grid: {show: false},
                     ticks: {show: false}, gap: 4,
                     values: () => lanes.map((lane) => width < 500 && lane.id !== undefined
                         ? String(lane.id) : lane.name.slice(0, width < 500 ? 8 : 14))})],
        series: [{}, {paths: () => null, points: {show: false}}],
        hooks: {...timedOptions({}).hooks, draw: [(plot) => drawTimeline(plot, lanes, overview)]},
    }), [[0, charts.window], [null, null]], true);
    box.addEventListener("mousemove", (event) => {
        const over = chart.plot.over.getBoundingClientRect();
        const y = event.clientY - over.top, x = event.clientX - over.left;
        const lane = lanes.find((one) => y >= one.top && y < one.top + one.size + BAND);
        if (!lane || x < 0 || x > over.width) { return hideTip(); }
        showTip(event, ...timelineTip(lane, overview, chart.plot.posToVal(x, "x")));
    });
    box.addEventListener("mouseleave", hideTip);
    return timelineLegend(lanes);
}

/* A bar of parts with their numbers, as elements: it prints, and a reader reads it. */
function stackedBar(parts, whole, name) {
    const named = name || kindName;
    const known = parts.filter(([, ns]) => toNumber(ns) > 0);
    return element("div", {class: "stack", role: "img", "aria-label": known.map(([kind, ns]) =>
        `${named(kind)} ${shareText(ns, whole)}`).join(", ")},
        known.map(([kind, ns]) => element("span", {
            style: `width:${100 * toNumber(ns) / toNumber(whole)}%;background:var(--k-${kind})`,
            title: `${named(kind)}: ${timeText(ns)}, ${shareText(ns, whole)}`,
        })));
}
