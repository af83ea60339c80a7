/* Tables that sort and filter. */

const TABLE_ROWS = 12;
const TEXT_CELL = 120;

/* Unknown comes last, whichever way the table is sorted. */
function compareValues(a, b, down) {
    const known = isKnown(b) - isKnown(a);
    if (known !== 0 || !isKnown(a)) { return known; }
    if (isNumber(a) && isNumber(b)) {
        const order = a < b ? -1 : a > b ? 1 : 0;
        return down ? -order : order;
    }
    const order = String(a).localeCompare(String(b), "en", {numeric: true});
    return down ? -order : order;
}

function cellOf(column, row) {
    const value = column.value(row);
    if (!isKnown(value)) {
        return element("td", {class: column.numeric ? "n unknown" : "unknown"},
                       column.absent === undefined ? "unknown" : column.absent);
    }
    const text = column.text ? column.text(row) : valueText(value, column.kind);
    const long = typeof text === "string" && text.length > TEXT_CELL;
    const shown = long ? text.slice(0, TEXT_CELL - 1) + "\u2026" : text;
    return element("td", {class: column.numeric ? "n" : column.wide ? "wide" : null,
                          title: long ? text : column.numeric ? exactText(value, column.kind)
                                                              : null},
                   column.swatch ? swatch(column.swatch(row)) : null, shown);
}

function swatch(kind) {
    return element("i", {class: "swatch", style: `background:var(--k-${kind})`,
                         "aria-hidden": "true"});
}

class Table {
    /* columns: [{title, value(row), kind, text(row), numeric, wide, absent, swatch(row), note}] */
    constructor(name, columns, rows, options) {
        this.name = name;
        /* A text that no row has needs no column. */
        this.columns = columns.filter((one) => one.absent !== "" ||
                                               rows.some((row) => isKnown(one.value(row))));
        this.rows = rows;
        this.options = options || {};
        this.sorted = this.columns.findIndex((one) => one.key && one.key === this.options.sort);
        this.down = this.options.down !== false;
        this.words = [];
        this.all = false;
        this.build();
        this.draw();
    }

    build() {
        this.head = element("tr", null, this.columns.map((column, index) => element("th", {
            scope: "col", class: column.numeric ? "n" : null,
        }, element("button", {type: "button", title: column.note || null,
                              onclick: () => this.sort(index)}, column.title))));
        this.body = element("tbody");
        this.status = element("span", {class: "status", "aria-live": "polite"});
        this.more = element("button", {type: "button", class: "more", onclick: () => {
            this.all = !this.all;
            this.draw();
        }});
        this.field = element("input", {type: "search", placeholder: "Filter",
                                       "aria-label": `Filter ${this.name}`, spellcheck: "false",
                                       oninput: () => this.filter(this.field.value)});
        const wanted = this.rows.length > 5;
        this.element = element("div", {class: "tablebox", "data-table": this.options.id || null},
            wanted ? element("div", {class: "tools"}, this.field, this.status) : null,
            element("div", {class: "scroll", tabindex: "0", role: "region",
                            "aria-label": this.name},
                element("table", null, element("caption", {class: "hidden"}, this.name),
                        element("thead", null, this.head), this.body)),
            this.more);
    }

    sort(index) {
        const same = this.sorted === index;
        this.down = same ? !this.down : Boolean(this.columns[index].numeric);
        this.sorted = index;
        this.draw();
    }

    filter(text) {
        this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
        this.draw();
    }

    textOf(row) {
        if (!this.texts) { this.texts = new Map(); }
        if (!this.texts.has(row)) {
            this.texts.set(row, this.columns.map((column) => {
                const value = column.value(row);
                return column.text && isKnown(value) ? column.text(row)
                                                     : valueText(value, column.kind);
            }).join(" ").toLowerCase());
        }
        return this.texts.get(row);
    }

    chosen() {
        let rows = this.rows;
        if (this.words.length > 0) {
            rows = rows.filter((row) =>
                this.words.every((word) => this.textOf(row).includes(word)));
        }
        if (this.sorted >= 0) {
            const value = this.columns[this.sorted].value;
            rows = [...rows].sort((a, b) => compareValues(value(a), value(b), this.down));
        }
        return rows;
    }

    draw() {
        const rows = this.chosen();
        const limit = this.all ? rows.length : this.options.rows || TABLE_ROWS;
        const shown = rows.slice(0, rows.length <= limit + 2 ? rows.length : limit);
        this.body.replaceChildren(...shown.map((row) => element("tr", null,
            this.columns.map((column) => cellOf(column, row)))));
        [...this.head.children].forEach((cell, index) => {
            const way = index !== this.sorted ? "none" : this.down ? "descending" : "ascending";
            cell.setAttribute("aria-sort", way);
        });
        const hidden = rows.length - shown.length;
        this.more.hidden = hidden === 0 && !(this.all && rows.length > TABLE_ROWS + 2);
        this.more.textContent = hidden > 0 ? `Show all ${countText(rows.length)} rows`
                                           : "Show fewer";
        this.element.dataset.more = hidden > 0 ? `${countText(hidden)} more rows` : "";
        this.status.textContent = `${countText(rows.length)} of ${countText(this.rows.length)}`;
    }
}

/* Columns for members of objects: column("time_ns", "time"). */
function column(key, title, options) {
    const kind = kindOf(key);
    return {key, title: title || titleOf(key), value: (row) => row[key], kind, numeric: true,
            ...options};
}

function textColumn(key, title, options) {
    return {key, title: title || words(key), absent: "",
            value: (row) => row[key] === "" || row[key] === "none" ? null : row[key], ...options};
}

/* ---- for sections that nothing here knows ---- */

function isPlain(value) {
    return !isKnown(value) || typeof value !== "object";
}

/* Objects within an object become "a.b", lists of plain values a text. */
function flattened(object, prefix, out) {
    for (const [key, value] of Object.entries(object)) {
        const name = prefix ? `${prefix}.${key}` : key;
        if (Array.isArray(value)) {
            out[name] = value.every(isPlain) ? value.map((item) => valueText(item)).join(", ")
                                             : `${value.length} items`;
        } else if (!isPlain(value)) {
            flattened(value, name, out);
        } else {
            out[name] = value;
        }
    }
    return out;
}

function genericTable(name, rows) {
    const flat = rows.map((row) => isPlain(row) ? {value: row} : flattened(row, "", {}));
    const keys = [...new Set(flat.flatMap((row) => Object.keys(row)))];
    const columns = keys.map((key) => {
        const last = key.slice(key.lastIndexOf(".") + 1);
        const numeric = flat.some((row) => isNumber(row[key])) &&
            flat.every((row) => !isKnown(row[key]) || isNumber(row[key]));
        return {title: titleOf(key), value: (row) => row[key] === "" ? null : row[key],
                absent: numeric ? "unknown" : "", kind: kindOf(last), numeric,
                wide: flat.some((row) => String(row[key] || "").length > 40)};
    });
    return new Table(name, columns, flat, {id: name}).element;
}

/* Names and values, two columns; what is long takes the whole width. */
function genericFacts(object) {
    const list = element("dl", {class: "facts"});
    for (const [key, value] of Object.entries(flattened(object, "", {}))) {
        const kind = kindOf(key.slice(key.lastIndexOf(".") + 1));
        const text = valueText(value, kind);
        list.append(element("div", {class: text.length > 40 ? "wide" : null},
            element("dt", null, titleOf(key)),
            element("dd", {title: exactText(value, kind), class: isKnown(value) ? null : "unknown"},
                    text)));
    }
    return list;
}

/* Whatever it is. Lists of objects within it become tables of their own. */
function genericBox(name, value) {
    if (Array.isArray(value)) { return genericTable(name, value); }
    if (isPlain(value)) { return element("p", null, valueText(value, kindOf(name))); }
    const box = element("div");
    const rest = {};
    for (const [key, member] of Object.entries(value)) {
        if (Array.isArray(member) && member.length > 0 && !member.every(isPlain)) {
            box.append(element("h3", null, words(key)), genericTable(`${name} ${key}`, member));
        } else {
            rest[key] = member;
        }
    }
    if (Object.keys(rest).length > 0) { box.prepend(genericFacts(rest)); }
    return box;
}
