// Reads exported files with the engine of Chrome DevTools and compares what it sees with the file.
//
//     node tests/readers/trace_engine.mjs FILE.json...
//
// Asserts, for each file: the threads' names; every slice is an entry of its thread and a root of
// its call tree (the lanes are flat); the flows are the arrows between different times, with the
// right slices at their ends (the engine does not resolve arrows of no latency). Times are rescaled
// to whole nanoseconds first: the engine adds ts and dur as doubles, and sums of fractions would
// make neighbours overlap. Prints "FILE: what is wrong"; the exit status is 1 then.
import fs from 'node:fs';

globalThis.DOMRect = class {}; // the engine's image handlers name it when they are loaded
const { Processor } = await import('@paulirish/trace_engine/models/trace/trace.js');

const key = (event) => `${event.pid} ${event.tid} ${event.ts} ${event.name}`;

function load(path) {
  const { traceEvents } = JSON.parse(fs.readFileSync(path, 'utf8'));
  for (const event of traceEvents) {
    for (const field of ['ts', 'dur']) {
      if (field in event) {
        event[field] = Math.round(1000 * event[field]);
      }
    }
  }
  return traceEvents;
}

// Threads of the file by "pid tid": name, and slices in order.
function threadsOf(events) {
  const threads = new Map();
  for (const event of events) {
    const id = `${event.pid} ${event.tid}`;
    if (event.ph === 'M' && event.name === 'thread_name') {
      threads.set(id, { name: event.args.name, slices: [] });
    } else if (event.ph === 'X') {
      threads.get(id).slices.push(key(event));
    }
  }
  return threads;
}

// Arrows between different times, as "source -> destination".
function arrowsOf(events) {
  const slices = new Map();
  const sources = new Map();
  const arrows = [];
  for (const event of events) {
    const place = `${event.pid} ${event.tid} ${event.ts}`;
    if (event.ph === 'X') {
      slices.set(place, key(event));
    } else if (event.ph === 's') {
      sources.set(event.id, { ts: event.ts, slice: slices.get(place) });
    } else if (event.ph === 'f' && sources.get(event.id).ts !== event.ts) {
      arrows.push(`${sources.get(event.id).slice} -> ${slices.get(place)}`);
    }
  }
  return arrows.sort();
}

function compare(problems, what, found, expected) {
  if (found.length !== expected.length) {
    problems.push(`${what}: ${found.length} instead of ${expected.length}`);
  }
  const at = expected.findIndex((text, i) => found[i] !== text);
  if (at >= 0) {
    problems.push(`${what}, number ${at + 1}: ${found[at]} instead of ${expected[at]}`);
  }
}

function compareThread(problems, id, thread, expected) {
  const what = `thread ${id} (${expected.name})`;
  if (thread?.name !== expected.name) {
    problems.push(`${what}: called ${thread?.name}`);
  }
  const entries = thread?.entries ?? [];
  const roots = [...(thread?.tree?.roots ?? [])].map((node) => node.entry);
  compare(problems, `${what}: entries`, entries.map(key), expected.slices);
  compare(problems, `${what}: roots`, roots.map(key), expected.slices);
  entries.forEach((entry) => {
    if (!Number.isInteger(entry.ts) || !Number.isInteger(entry.dur)) {
      problems.push(`${what}: ${key(entry)} is not on whole nanoseconds`);
    }
  });
}

async function check(path) {
  const problems = [];
  const events = load(path);
  const threads = threadsOf(events);
  const arrows = arrowsOf(events);
  const processor = Processor.TraceProcessor.createWithAllHandlers();
  await processor.parse(events, {});
  const { Renderer, Flows } = processor.data;
  let seen = 0;
  for (const [pid, process] of Renderer.processes) {
    for (const [tid, thread] of process.threads) {
      const expected = threads.get(`${pid} ${tid}`);
      seen += thread.entries.length > 0;
      compareThread(problems, `${pid} ${tid}`, thread, expected ?? { name: '?', slices: [] });
    }
  }
  const used = [...threads.values()].filter((thread) => thread.slices.length > 0).length;
  if (seen !== used) {
    problems.push(`${seen} threads with slices instead of ${used}`);
  }
  const flows = Flows.flows.map((flow) => `${key(flow[0])} -> ${key(flow.at(-1))}`);
  compare(problems, 'flows', flows.sort(), arrows);
  problems.slice(0, 20).forEach((text) => console.log(`${path}: ${text}`));
  return { bad: problems.length > 0, flows: arrows.length, events: events.length };
}

const paths = process.argv.slice(2);
const results = [];
for (const path of paths) {
  results.push(await check(path));
}
const sum = (field) => results.reduce((total, result) => total + Number(result[field]), 0);
console.log(`${results.length} files, ${sum('events')} events, ${sum('flows')} flows, ` +
            `${sum('bad')} with problems`);
process.exit(results.length > 0 && sum('bad') === 0 ? 0 : 1);
