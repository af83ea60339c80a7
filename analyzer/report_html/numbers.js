/* Reading the documents, and writing numbers for people: with units, narrow spaces, and what is
 * not known called unknown. */

const NARROW = "\u202f";

/* JSON whose integers may be larger than a double holds: those become BigInt. */
function parseDocument(text) {
    const numbers = /"(?:[^"\\]|\\.)*"|(?<![\d.])-?\d{16,}(?![\d.eE])/g;
    const marked = text.replace(numbers, (token) =>
        token[0] === '"' ? token : '"\\u0000' + token + '"');
    return JSON.parse(marked, (key, value) =>
        typeof value === "string" && value[0] === "\0" && /^\0-?\d+$/.test(value)
            ? BigInt(value.slice(1)) : value);
}

function readDocument(id) {
    const found = document.getElementById(id);
    return found ? parseDocument(found.textContent) : null;
}

const isNumber = (value) => typeof value === "number" || typeof value === "bigint";
const isKnown = (value) => value !== null && value !== undefined;
const toNumber = (value) => Number(value);

/* a - b as a number, exact before the difference is rounded. */
function minus(a, b) {
    return typeof a === "bigint" || typeof b === "bigint" ? Number(BigInt(a) - BigInt(b)) : a - b;
}

function grouped(digits) {
    return digits.replace(/\B(?=(\d{3})+(?!\d))/g, NARROW);
}

/* 12345 as "12 345", 0.25 as "0.25". */
function countText(value) {
    if (typeof value === "bigint" || Number.isInteger(value)) {
        const text = String(value);
        return text[0] === "-" ? "\u2212" + grouped(text.slice(1)) : grouped(text);
    }
    return String(Number(value.toPrecision(6)));
}

function scaled(value, steps, unit) {
    const size = Math.abs(value);
    for (const [factor, prefix] of steps) {
        if (size >= factor) {
            const text = (size / factor).toFixed(factor === 1 && Number.isInteger(value) ? 0 : 2);
            const [whole, part] = text.split(".");
            return (value < 0 ? "\u2212" : "") + grouped(whole) + (part ? "." + part : "") +
                NARROW + prefix + unit;
        }
    }
    return (value === 0 ? "0" : value.toPrecision(3)) + NARROW + unit;
}

const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];
const AMOUNTS = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"],
                 [1, ""]];

const timeText = (ns) =>
    toNumber(ns) === 0 ? "0" + NARROW + "ns" : scaled(toNumber(ns), TIMES, "");
const amountText = (value, unit) => scaled(toNumber(value), AMOUNTS, unit);

function percentText(ratio) {
    return (100 * toNumber(ratio)).toFixed(2) + NARROW + "%";
}

function shareText(part, whole) {
    return toNumber(whole) > 0 ? percentText(toNumber(part) / toNumber(whole)) : "\u2013";
}

/* "host_launch" as "host-launch". */
const words = (name) => String(name).replace(/_/g, "-");

/* A member's name as a title: times are written with a unit of their own, so "_ns" goes. */
const titleOf = (key) => words(key.replace(/_ns$/, ""));

/* What a member of the documents is, by its name: how it is written. */
function kindOf(key) {
    if (/(^|_)ns(_|$)/.test(key)) { return "time"; }
    if (/bytes_per_s$/.test(key)) { return "bytes_per_s"; }
    if (/flops_per_s$/.test(key)) { return "flops_per_s"; }
    if (/(^|_)bytes(_|$)/.test(key)) { return "bytes"; }
    if (/(^|_)flops?$/.test(key)) { return "flops"; }
    if (/(^|_)(share|ratio|fraction)$/.test(key)) { return "ratio"; }
    if (/(^|_)(percent|pct)$/.test(key)) { return "percent"; }
    return "plain";
}

const WRITERS = {
    time: timeText,
    bytes: (value) => amountText(value, "B"),
    bytes_per_s: (value) => amountText(value, "B/s"),
    flops: (value) => amountText(value, "FLOP"),
    flops_per_s: (value) => amountText(value, "FLOP/s"),
    ratio: percentText,
    percent: (value) => toNumber(value).toFixed(2) + NARROW + "%",
    plain: countText,
};

/* Any value as text; `kind` is a name of WRITERS. */
function valueText(value, kind) {
    if (!isKnown(value)) { return "unknown"; }
    if (isNumber(value)) { return WRITERS[kind || "plain"](value); }
    if (typeof value === "boolean") { return value ? "yes" : "no"; }
    return String(value);
}

/* The number as the documents have it, for those who need the last digit. */
function exactText(value, kind) {
    if (!isNumber(value)) { return ""; }
    const units = {time: " ns", bytes: " B", bytes_per_s: " B/s", flops: " FLOP",
                   flops_per_s: " FLOP/s"};
    return String(value) + (units[kind] || "");
}

/* ---- elements ---- */

/* element("td", {class: "n", title: "..."}, child, "text", ...); texts are never markup. */
function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (name.startsWith("on")) {
            made.addEventListener(name.slice(2), value);
        } else if (value !== null && value !== undefined && value !== false) {
            made.setAttribute(name, value === true ? "" : value);
        }
    }
    for (const child of children.flat(Infinity)) {
        if (child !== null && child !== undefined && child !== false) {
            made.append(child);
        }
    }
    return made;
}
