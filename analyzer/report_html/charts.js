/* What all charts share, and the charts that are drawn by uPlot but for the timeline. */

/* Colours come from the style sheet, so that they follow the theme. */
const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const kindPaint = (kind) => paint(`--k-${kind}`) || paint("--k-other");

const charts = {all: [], timed: [], zooming: false};
const FONT = () => `11px ${paint("--font")}`;

/* ---- the tip beside the pointer ---- */

function showTip(event, ...content) {
    const tip = document.getElementById("tip");
    tip.replaceChildren(...content);
    tip.hidden = false;
    const {innerWidth, innerHeight} = window, box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const below = event.clientY + 16 + box.height < innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    const top = below ? event.clientY + 16 : Math.max(8, event.clientY - box.height - 12);
    tip.style.top = `${top}px`;
}

function hideTip() {
    document.getElementById("tip").hidden = true;
}

/* ---- axes ---- */

function axis(options) {
    return {stroke: () => paint("--soft"), font: FONT(), labelFont: FONT(), labelSize: 18,
            grid: {stroke: () => paint("--line"), width: 1},
            ticks: {stroke: () => paint("--line"), width: 1, size: 4}, ...options};
}

/* Ticks of one axis are written with one unit: that of the step. */
function timeTicks(plot, splits) {
    if (splits.length < 2) { return splits.map((ns) => timeText(ns)); }
    const step = Math.abs(splits[1] - splits[0]);
    const [factor, unit] = TIMES.find(([size]) => Math.max(...splits.map(Math.abs)) >= size) ||
        TIMES[3];
    const decimals = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / factor) + 1e-9)));
    return splits.map((ns) => grouped((ns / factor).toFixed(decimals)) + NARROW + unit);
}

const amountTicks = (unit) => (plot, splits) =>
    splits.map((value) => value === null ? "" : amountText(value, unit).replace(/\.00/, ""));

/* ---- zoom in time, the same in all charts over time ---- */

function zoomTo(min, max) {
    if (charts.zooming) { return; }
    charts.zooming = true;
    for (const chart of charts.timed) { chart.plot.setScale("x", {min, max}); }
    charts.zooming = false;
    const whole = min <= 0 && max >= charts.window;
    for (const button of document.querySelectorAll(".unzoom")) { button.disabled = whole; }
    document.body.dataset.zoom = whole ? "" : `${Math.round(min)} ${Math.round(max)}`;
}

const unzoom = () => zoomTo(0, charts.window);

/* Plus and minus zoom, arrows move, escape shows all. */
function zoomByKey(event, plot) {
    const {min, max} = plot.scales.x, span = max - min, middle = (min + max) / 2;
    const within = (from, to) => {
        const size = Math.min(to - from, charts.window);
        const first = Math.max(0, Math.min(from, charts.window - size));
        zoomTo(first, first + size);
    };
    const acts = {
        "+": () => within(middle - span / 4, middle + span / 4),
        "=": () => acts["+"](),
        "-": () => within(middle - span, middle + span),
        ArrowLeft: () => within(min - span / 4, max - span / 4),
        ArrowRight: () => within(min + span / 4, max + span / 4),
        Escape: unzoom,
        0: unzoom,
    };
    if (acts[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        acts[event.key]();
    }
}

/* Makes a uPlot in `box` whose width follows the box. options(width) gives its options. */
function addChart(box, height, options, data, timed) {
    const width = () => Math.max(260, Math.floor(box.clientWidth || 800));
    const chart = {box, height};
    chart.make = () => {
        const kept = chart.plot ? {...chart.plot.scales.x} : null;
        if (chart.plot) { chart.plot.destroy(); }
        chart.plot = new uPlot({width: width(), height, ...options(width())}, data, box);
        if (timed && kept && isKnown(kept.min)) {
            chart.plot.setScale("x", {min: kept.min, max: kept.max});
        }
    };
    chart.resize = () => {
        if (chart.plot.width !== width()) { chart.make(); }
    };
    chart.make();
    charts.all.push(chart);
    if (timed) {
        charts.timed.push(chart);
        box.tabIndex = 0;
        box.addEventListener("keydown", (event) => zoomByKey(event, chart.plot));
        box.addEventListener("dblclick", unzoom);
    }
    new ResizeObserver(() => requestAnimationFrame(chart.resize)).observe(box);
    return chart;
}

function redrawCharts() {
    for (const chart of charts.all) { chart.make(); }
}

/* Options of charts over time: drag zooms all of them. */
function timedOptions(options) {
    return {
        legend: {show: false},
        cursor: {y: false, drag: {x: true, y: false, setScale: false},
                 sync: {key: "time", setSeries: false, scales: ["x", null]}, points: {show: false},
                 bind: {dblclick: () => null}},
        hooks: {setSelect: [(plot) => {
            const {left, width} = plot.select;
            if (width > 2) {
                zoomTo(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
                plot.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
            }
        }]},
        ...options,
    };
}

function timeScale() {
    return {time: false, range: (plot, min, max) => isKnown(min) ? [min, max]
                                                                 : [0, charts.window || 1]};
}

/* ---- lines over time: memory, queue depth ---- */

/* series: [{name, kind of paint, points: [[ns since begin, value], ...]}]; steps. */
function stepChart(box, series, tick, height) {
    const times = [...new Set([0, charts.window,
                               ...series.flatMap((one) => one.points.map(([ns]) => ns))])]
        .filter((ns) => ns >= 0 && ns <= charts.window).sort((a, b) => a - b);
    const columns = series.map((one) => {
        const found = new Map(one.points);
        let last = null;
        for (const [ns, value] of one.points) {
            if (ns <= 0) { last = value; }
        }
        return times.map((ns) => {
            if (found.has(ns)) { last = found.get(ns); }
            return last;
        });
    });
    const stepped = uPlot.paths.stepped({align: 1});
    return addChart(box, height, (width) => timedOptions({
        scales: {x: timeScale(), y: {range: (plot, min, max) => [0, max > 0 ? max * 1.08 : 1]}},
        axes: [axis({values: timeTicks, space: width < 500 ? 70 : 90}),
               axis({values: tick, size: 74})],
        series: [{}, ...series.map((one, index) => ({
            label: one.name, paths: stepped, width: 1.5, points: {show: false},
            stroke: () => paint(`--line-${index % 8}`),
            value: (plot, value) => isKnown(value) ? one.text(value) : "\u2013",
        }))],
        legend: {show: series.length > 1, live: false},
    }), [times, ...columns], true);
}

/* ---- roofline ---- */

function rooflinePoints(rows) {
    return rows.filter((row) => toNumber(row.flops) > 0 && toNumber(row.bytes) > 0 &&
                                toNumber(row.time_ns) > 0)
        .map((row) => ({row, x: toNumber(row.flops) / toNumber(row.bytes),
                        y: toNumber(row.flops) / (toNumber(row.time_ns) * 1e-9)}))
        .sort((a, b) => a.x - b.x);
}

/* The roofs of the rows: pairs of a peak and a bandwidth. */
function roofsOf(rows) {
    const roofs = new Map();
    for (const row of rows) {
        const peak = toNumber(row.peak_flops_per_s || 0);
        const bandwidth = toNumber(row.bandwidth_bytes_per_s || 0);
        if (peak > 0 && bandwidth > 0) {
            const key = `${peak} ${bandwidth}`;
            const roof = roofs.get(key) || {peak, bandwidth, dtypes: new Set()};
            roof.dtypes.add(row.dtype && row.dtype !== "none" ? `${row.unit} ${row.dtype}` : "");
            roofs.set(key, roof);
        }
    }
    return [...roofs.values()].sort((a, b) => b.peak - a.peak);
}

function drawRoof(plot, roof, row, {min, max}) {
    const {ctx} = plot, at = (value, scale) => plot.valToPos(value, scale, true);
    const ridge = roof.peak / roof.bandwidth;
    ctx.beginPath();
    ctx.moveTo(at(min, "x"), at(min * roof.bandwidth, "y"));
    ctx.lineTo(at(ridge, "x"), at(roof.peak, "y"));
    ctx.lineTo(at(max, "x"), at(roof.peak, "y"));
    ctx.stroke();
    const {left, top, width, height} = plot.bbox;
    ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(at(ridge, "x"), at(roof.peak, "y"));
    ctx.lineTo(at(ridge, "x"), top + height);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    const known = [...roof.dtypes].filter((dtype) => dtype);
    const dtypes = known.slice(0, 3).join(", ") + (known.length > 3 ? ", \u2026" : "");
    ctx.fillText(`${dtypes ? dtypes + " " : ""}${amountText(roof.peak, "FLOP/s")}`,
                 left + width - 4 * devicePixelRatio,
                 at(roof.peak, "y") - 3 * devicePixelRatio);
    ctx.textAlign = "left";
    ctx.fillText(`ridge ${ridge.toPrecision(3)}`, at(ridge, "x") + 4 * devicePixelRatio,
                 top + height - (3 + 13 * row) * devicePixelRatio);
}

function rooflineChart(box, rows, say) {
    const points = rooflinePoints(rows), roofs = roofsOf(points.map((point) => point.row));
    const total = rows.reduce((sum, row) => sum + toNumber(row.time_ns), 0);
    const ridges = roofs.map((roof) => roof.peak / roof.bandwidth);
    const xs = [...points.map((point) => point.x), ...ridges];
    const ys = [...points.map((point) => point.y), ...roofs.map((roof) => roof.peak)];
    const wide = (values) => [Math.pow(10, Math.floor(Math.log10(Math.min(...values)) - 0.1)),
                              Math.pow(10, Math.ceil(Math.log10(Math.max(...values)) + 0.05))];
    const [xMin, xMax] = wide(xs), [yMin, yMax] = wide(ys);
    const radius = (point) => 3 + 17 * Math.sqrt(toNumber(point.row.time_ns) / (total || 1));
    let chosen = -1;
    const choose = (index, event) => {
        if (chosen !== index) {
            chosen = index;
            chart.plot.redraw(false);
        }
        if (index < 0) { return hideTip(); }
        const content = rooflineTip(points[index], total);
        if (event) { showTip(event, ...content); }
        say.textContent = content.map((part) => part.textContent).join("; ");
    };
    const draw = (plot) => {
        const {ctx} = plot, {left, top, width, height} = plot.bbox;
        ctx.save();
        ctx.beginPath();
        ctx.rect(left, top, width, height);
        ctx.clip();
        ctx.font = `${11 * devicePixelRatio}px ${paint("--font")}`;
        ctx.strokeStyle = ctx.fillStyle = paint("--soft");
        ctx.lineWidth = 1.5 * devicePixelRatio;
        roofs.forEach((roof, row) => drawRoof(plot, roof, row, {min: xMin, max: xMax}));
        const drawn = points.map((point, index) => ({point, index}))
            .sort((a, b) => radius(b.point) - radius(a.point));
        for (const {point, index} of drawn) {
            const x = plot.valToPos(point.x, "x", true), y = plot.valToPos(point.y, "y", true);
            ctx.beginPath();
            ctx.arc(x, y, radius(point) * devicePixelRatio, 0, 2 * Math.PI);
            ctx.fillStyle = kindPaint(point.row.class);
            ctx.globalAlpha = index === chosen ? 1 : 0.72;
            ctx.fill();
            ctx.globalAlpha = 1;
            ctx.strokeStyle = index === chosen ? paint("--text") : paint("--paper");
            ctx.lineWidth = (index === chosen ? 2 : 1) * devicePixelRatio;
            ctx.stroke();
        }
        ctx.restore();
    };
    const chart = addChart(box, 380, (width) => ({
        legend: {show: false},
        cursor: {x: false, y: false, points: {show: false}, drag: {x: false, y: false}},
        scales: {x: {time: false, distr: 3, range: [xMin, xMax]},
                 y: {distr: 3, range: [yMin, yMax]}},
        axes: [logAxis({label: "intensity, FLOP per byte", values: logTicks, space: 40}),
               logAxis({label: width < 500 ? null : "achieved, FLOP/s", size: 66,
                     values: (plot, splits) => logTicks(plot, splits).map((text, index) =>
                         text === "" ? "" : amountText(splits[index], "").replace(/\.00/, ""))})],
        series: [{}, {paths: () => null, points: {show: false}}],
        hooks: {draw: [draw]},
    }), [points.map((point) => point.x), points.map((point) => point.y)], false);
    const nearest = (event) => {
        const over = chart.plot.over.getBoundingClientRect();
        const x = event.clientX - over.left, y = event.clientY - over.top;
        let best = -1, least = Infinity;
        points.forEach((point, index) => {
            const away = Math.hypot(chart.plot.valToPos(point.x, "x") - x,
                                    chart.plot.valToPos(point.y, "y") - y) - radius(point);
            if (away < least) { [best, least] = [index, away]; }
        });
        return least < 12 ? best : -1;
    };
    box.addEventListener("mousemove", (event) => choose(nearest(event), event));
    box.addEventListener("mouseleave", () => choose(-1));
    box.tabIndex = 0;
    box.addEventListener("keydown", (event) => {
        const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
        if (step) {
            event.preventDefault();
            choose((chosen + step + points.length) % points.length);
        }
    });
    box.addEventListener("blur", () => choose(-1));
    return {points: points.length, hidden: rows.length - points.length};
}

/* An axis of powers of ten, with lines and labels at those only. */
const isPower = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
const powersOnly = (plot, splits) => splits.map((value) => isPower(value) ? value : null);

function logAxis(options) {
    const made = axis({...options, filter: powersOnly});
    made.grid.filter = made.ticks.filter = powersOnly;
    return made;
}

function logTicks(plot, splits) {
    return splits.map((value) => {
        if (!isKnown(value) || !isPower(value)) { return ""; }
        const power = Math.log10(value);
        return value >= 1e-2 && value < 1e5 ? String(Number(value.toPrecision(3)))
                                            : `1e${Math.round(power)}`;
    });
}

function rooflineTip({row, x, y}, total) {
    const ratio = row.peak_fraction;
    return [
        element("b", null, row.op || row.name || ""),
        element("div", null, [row.shape, row.dtype].filter(Boolean).join(" ")),
        element("div", null, `${countText(row.count)} \u00d7, ${timeText(row.time_ns)} in all, ` +
                `${shareText(row.time_ns, total)} of operator time`),
        element("div", null, `${x.toPrecision(4)} FLOP/B, ${amountText(y, "FLOP/s")}`),
        element("div", null, words(row.class) +
                (isKnown(ratio) ? `, ${percentText(ratio)} of the roof` : "")),
    ];
}
