/* Puts the page together. */

const HEAD_KEYS = ["file", "format", "status", "modelled", "window_ns", "begin_ns", "end_ns",
                   "verdict", "schema_version"];

function addSection(main, nav, id, title, box) {
    main.append(element("section", {id}, element("h2", null, title), ...[].concat(box)));
    nav.append(element("a", {href: `#${id}`}, title));
}

/* Sections in order; a failure in one is said in its place and keeps none of the others. */
function addSections(main, nav, list, doc, overview, seen, later) {
    for (const [id, title, make] of list) {
        let made;
        try {
            made = make(doc, overview);
        } catch (error) {
            console.error(error);
            made = {box: [note(`This section could not be made: ${error.message}`)]};
        }
        for (const key of made && made.keys || []) { seen.add(key); }
        if (made && made.box) { addSection(main, nav, id, title, made.box); }
        if (made && made.then) { later.push(made.then); }
    }
}

function addOthers(main, nav, doc, seen) {
    for (const [key, value] of Object.entries(doc)) {
        const empty = !isKnown(value) || (typeof value === "object" &&
                                          Object.keys(value).length === 0);
        if (!seen.has(key) && !empty) {
            addSection(main, nav, `other-${key}`, words(key), genericBox(key, value));
        }
    }
}

/* ---- colours: as the system, light, dark ---- */

function setTheme(theme) {
    const button = document.getElementById("theme");
    document.documentElement.dataset.theme = theme;
    button.textContent = theme;
    button.setAttribute("aria-label",
                        `Colours: ${theme === "auto" ? "as the system" : theme}; change`);
    redrawCharts();
}

function nextTheme() {
    const themes = ["auto", "light", "dark"];
    const at = themes.indexOf(document.documentElement.dataset.theme || "auto");
    setTheme(themes[(at + 1) % themes.length]);
}

/* Paper is white, whatever the screen was, and as wide as a page. */
function printReady() {
    const was = document.documentElement.dataset.theme || "auto";
    window.addEventListener("beforeprint", () => {
        document.documentElement.dataset.theme = "light";
        redrawCharts();
    });
    window.addEventListener("afterprint", () => setTheme(was));
}

/* The document; of several ranks, what is said about all of them replaces what it says itself. */
function wholeDocument() {
    const doc = readDocument("analysis"), set = readDocument("set");
    if (!set) { return doc; }
    const {ranks, rank_set, rank_analysis, ...rest} = set;
    return {...doc, file: set.file, format: set.format, rank_analysis, rank_set,
            rank_documents: ranks, window_ns: doc.window_ns, set: rest};
}

function start() {
    const doc = wholeDocument(), overview = readDocument("overview");
    const main = document.getElementById("main"), nav = document.getElementById("nav");
    const seen = new Set(HEAD_KEYS), later = [];
    charts.window = toNumber(overview.window_ns || 0);
    const name = String(doc.file || "").split("/").pop();
    document.getElementById("file").textContent = name;
    if (name) { document.title = `${name} \u2013 Orrery report`; }
    main.append(verdictSection(doc, overview));
    addSections(main, nav, SECTIONS, doc, overview, seen, later);
    for (const [, , make] of LAST_SECTIONS) {
        for (const key of make({}, {}).keys || []) { seen.add(key); }
    }
    addOthers(main, nav, doc, seen);
    addSections(main, nav, LAST_SECTIONS, doc, overview, seen, later);
    for (const then of later) { then(); }
    document.getElementById("theme").addEventListener("click", nextTheme);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
    document.addEventListener("scroll", hideTip, {passive: true});
    printReady();
    document.body.dataset.ready = "yes";
}

start();
