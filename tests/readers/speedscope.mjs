// Opens exported files in speedscope, a flame viewer, in a Chromium without a window and offline,
// and compares what it imported with the file.
//
//     node tests/readers/speedscope.mjs FILE.json...        CHROMIUM=/path/to/it if not in PATH
//
// Asserts, for each file: no warning and no error on the page's console (it warns of slices that
// overlap); a profile for each thread, by name; an opening and a closing event for each slice with
// a length, with its name and args, at its times (speedscope counts from a thread's first slice);
// and that the page really draws: the share of coloured pixels in the overview is the share of time
// with slices. Times are rescaled to whole nanoseconds first, see trace_engine.mjs. Prints
// "FILE: what is wrong"; the exit status is 1 then, and 77 if there is no Chromium.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { chromium } = await import('playwright-core');
const require = createRequire(import.meta.url);
const viewer = path.join(path.dirname(require.resolve('speedscope/package.json')),
                         'dist/release/index.html');

function findChromium() {
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  const places = ['chromium', 'chromium-browser', 'google-chrome'].flatMap((name) =>
    folders.map((folder) => path.join(folder, name)));
  return [process.env.CHROMIUM, ...places].find((place) => place && fs.existsSync(place));
}

function load(file) {
  const document = JSON.parse(fs.readFileSync(file, 'utf8'));
  for (const event of document.traceEvents) {
    for (const field of ['ts', 'dur']) {
      if (field in event) {
        event[field] = Math.round(1000 * event[field]);
      }
    }
  }
  return document;
}

// Profiles that must be there: name -> opening and closing events in order.
function profilesOf({ traceEvents }) {
  const names = new Map();
  const profiles = new Map();
  for (const event of traceEvents) {
    const id = `${event.pid} ${event.tid}`;
    if (event.ph === 'M') {
      const place = event.name === 'process_name' ? `${event.pid}` : id;
      names.set(`${place} ${event.name}`, event.args.name);
    } else if (event.ph === 'X') {
      const name = `${names.get(`${event.pid} process_name`)} (pid ${event.pid}), ` +
                   `${names.get(`${id} thread_name`)} (tid ${event.tid})`;
      const profile = profiles.get(name) ?? { start: event.ts, events: [] };
      profiles.set(name, profile);
      if (event.dur > 0) {
        const frame = `${event.name} ${JSON.stringify(event.args)}`;
        if (profile.events.at(-1) === `C ${event.ts} ${frame}`) {
          profile.events.pop(); // speedscope joins neighbours that are the same
        } else {
          profile.events.push(`O ${event.ts} ${frame}`);
        }
        profile.events.push(`C ${event.ts + event.dur} ${frame}`);
      }
    }
  }
  return profiles;
}

// The share of the overview's middle row that is coloured.
async function colouredShare(page) {
  const shot = (await page.screenshot()).toString('base64');
  return page.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = image.width;
    canvas.height = image.height;
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const row = context.getImageData(0, 80, image.width, 1).data;
    let coloured = 0;
    for (let i = 0; i < row.length; i += 4) {
      const rgb = [row[i], row[i + 1], row[i + 2]];
      coloured += Math.max(...rgb) - Math.min(...rgb) > 8;
    }
    return coloured / image.width;
  }, shot);
}

// What speedscope makes of the file: its own export, and how much of it is drawn.
async function open(browser, file, problems) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'orrery-speedscope-'));
  const context = await browser.newContext({ offline: true, acceptDownloads: true });
  try {
    const page = await context.newPage();
    page.on('pageerror', (error) => problems.push(`error on the page: ${error}`));
    page.on('console', (message) => {
      const harmless = /GL Driver Message/.test(message.text());
      if (['warning', 'error'].includes(message.type()) && !harmless) {
        problems.push(`${message.type()}: ${message.text()}`);
      }
    });
    const script = path.join(folder, 'profile.js');
    const content = Buffer.from(JSON.stringify(load(file))).toString('base64');
    fs.writeFileSync(script, `speedscope.loadFileFromBase64('trace.json', '${content}')`);
    await page.goto(`${pathToFileURL(viewer)}#localProfilePath=${script}`);
    await page.getByText(/\(tid \d+\)/).first().waitFor({ timeout: 30000 });
    await page.waitForTimeout(300); // one more frame: the drawing follows the import
    const drawn = await colouredShare(page);
    const [download] = await Promise.all([
      page.waitForEvent('download', { timeout: 30000 }),
      page.keyboard.press('Control+s'),
    ]);
    return { drawn, ...JSON.parse(fs.readFileSync(await download.path(), 'utf8')) };
  } finally {
    await context.close();
    fs.rmSync(folder, { recursive: true });
  }
}

function busyShare({ start, events }) {
  const times = events.map((text) => Number(text.split(' ')[1]));
  const busy = times.reduce((sum, time, i) => sum + (i % 2 === 1 ? time - times[i - 1] : 0), 0);
  return busy === 0 ? 0 : busy / (times.at(-1) - start);
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

async function check(browser, file) {
  const problems = [];
  const expected = profilesOf(load(file));
  if ([...expected.values()].every((profile) => profile.events.length === 0)) {
    console.log(`${file}: nothing with a length, which speedscope does not open`);
    return false;
  }
  const seen = await open(browser, file, problems);
  const frames = seen.shared.frames.map((frame) => frame.name);
  compare(problems, 'profiles', seen.profiles.map((profile) => profile.name).sort(),
          [...expected.keys()].sort());
  for (const profile of seen.profiles) {
    const { start, events } = expected.get(profile.name) ?? { start: 0, events: [] };
    const found = profile.events.map(({ type, at, frame }) =>
      `${type} ${at + start} ${frames[frame]}`);
    compare(problems, profile.name, found, events);
  }
  const shown = expected.get(seen.profiles[seen.activeProfileIndex].name);
  if (shown && Math.abs(busyShare(shown) - seen.drawn) > 0.05) {
    problems.push(`${seen.drawn} of the overview is coloured, not ${busyShare(shown)}`);
  }
  problems.slice(0, 20).forEach((text) => console.log(`${file}: ${text}`));
  return problems.length > 0;
}

const executablePath = findChromium();
if (!executablePath) {
  console.log('no chromium in PATH');
  process.exit(77);
}
const files = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ['--no-sandbox', '--allow-file-access-from-files'],
});
let bad = 0;
try {
  for (const file of files) {
    bad += await check(browser, file);
  }
} finally {
  await browser.close();
}
console.log(`${files.length} files, ${bad} with problems`);
process.exit(files.length > 0 && bad === 0 ? 0 : 1);
