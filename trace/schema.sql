-- The database that a run leaves: a timeline of every command, what it waited for and what it used.
--
-- This file is executed as it stands when a trace is created. Names and columns of the tables and
-- views in part 1 are a contract (user_version says which one); anything that ends in _row, and the
-- table text, is the compact storage behind them and may change with user_version.
--
-- Conventions
--   *_ns         int64 nanoseconds of the run's clock (meta 'clock'): virtual time from 0, or a
--                monotonic clock whose zero means nothing. NULL: never happened, or not known.
--   ids          op, cmd, sync, buffer, block, collective, finding from 1; device, stream, host,
--                communicator, rank from 0. NULL: there is none. Command ids are in order of calls,
--                rows appear in order of completion: `order by id` where the order matters.
--   *_bytes, bytes, flops     counts; values beyond 2^63-1 are stored as 2^63-1.
--   kind, status, ...         lower-case words, listed with the column.
--
-- Writing: one transaction per batch of records, journal_mode TRUNCATE, so that a killed run loses
-- the batch in progress and nothing else. Until it is opened for writing the next time, such a file
-- has a file PATH-journal beside it, and the two belong together: copy both or none. Orrery reads
-- the pair without changing it; the sqlite3 shell takes the unfinished batch back when it opens it.
--
-- Example: the ten slowest kernels and what they waited for
--     SELECT c.name, c.site, t.* FROM v_timing AS t JOIN cmd AS c ON c.id = t.cmd
--     WHERE c.kind = 'kernel' ORDER BY t.device_ns DESC LIMIT 10;

PRAGMA application_id = 1332900473; -- 'Orry'
PRAGMA user_version = 4;            -- schema version

---------------------------------------------------------------------------------------------------
-- Part 1a. Small tables, stored as they are read

-- Facts about the run. Always there: schema_version. In runs of ours also status ('running' until
-- the run ends: a trace that still says so was killed; then 'ok', 'failed', ... as it said) and
-- dropped (records that were lost because the writer could not keep up or the disk failed;
-- dropped_KIND splits it).
-- From the runtime: orrery_version, scenario, args (key=value only), seed, devices, backend,
-- clock (virtual, monotonic, ...), accesses (true: every command has its rows in access).
-- On GPUs also cuda_runtime, cuda_driver (versions) and cuda_device_max_connections, the driver's
-- setting of that name.
-- In imported traces, beside what the source says of itself: source_format (kineto, nsys; absent:
-- a run of ours), source_time_base_ns (wall clock of the zero of its times), source_knows_waits and
-- source_knows_syncs (true, false: are dependencies between streams recorded, and what hosts waited
-- for), source_NAME for the numbers of ORR_SOURCE_NUMBER_LIST in trace/timeline.h; absent: not
-- known.
CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- Devices, simulated or real.
CREATE TABLE device (
    id INTEGER PRIMARY KEY,
    name TEXT,          -- for people
    kind TEXT,          -- what it is or is a model of: gpu, cpu
    physical INTEGER,   -- index of the physical device that hosts it
    profile TEXT,       -- simulated machine or model of the hardware, 'h100'
    mem_bytes INTEGER,  -- memory capacity
    bandwidth INTEGER,  -- byte/s of its memory; 0 = not known
    multiprocessors INTEGER -- 0 or NULL = not known
);

-- Peak rates for the roofline, as the run knew them.
CREATE TABLE device_peak (
    device INTEGER NOT NULL,      -- device.id
    unit TEXT NOT NULL,           -- vector (element by element), matrix (tensor cores)
    dtype TEXT NOT NULL,          -- f64 f32 f16 bf16 i32 i64 bool i8 f8e4m3 f8e5m2
    flops_per_s INTEGER NOT NULL, -- FLOP/s, a fused multiply-add counts as two
    PRIMARY KEY (device, unit, dtype)
) WITHOUT ROWID;

-- In-order queues of a device.
CREATE TABLE stream (
    id INTEGER PRIMARY KEY,  -- unique over all devices
    device INTEGER NOT NULL, -- device.id
    name TEXT,               -- unique within the device
    kind TEXT NOT NULL,      -- compute, communicate, copy
    sync TEXT NOT NULL,      -- default-stream behaviour: nb (non-blocking), bl (blocking), ptds
                             -- (per-thread default), legacy (the legacy default stream itself)
    process INTEGER          -- imported: of whoever enqueues in it; NULL: there is one only
);

-- Controllers and rank threads: whoever enqueues. Imported: the threads of processes.
CREATE TABLE host (
    id INTEGER PRIMARY KEY,
    name TEXT,      -- for people
    label TEXT,     -- imported: 'pid/tid', or the source's number
    process INTEGER -- imported: NULL: there is one only
);

-- Groups of devices that run collectives together.
CREATE TABLE communicator (
    id INTEGER PRIMARY KEY,
    name TEXT -- for people
);

-- Which device is which rank of a communicator.
CREATE TABLE communicator_member (
    communicator INTEGER NOT NULL, -- communicator.id
    rank INTEGER NOT NULL,         -- from 0
    device INTEGER,                -- device.id; NULL: a rank of which there is no trace
    PRIMARY KEY (communicator, rank)
) WITHOUT ROWID;

-- What the hazard check, or a run's own check, has to say.
CREATE TABLE finding (
    id INTEGER PRIMARY KEY,
    kind TEXT,      -- as in the list of hazards: race, use-after-free, ...
    severity TEXT,  -- error, warning, info
    cmd_a INTEGER,  -- cmd.id: the earlier one of a pair, or the only one
    cmd_b INTEGER,  -- cmd.id: the later one of a pair
    buffer INTEGER, -- buffer.id
    message TEXT,   -- one line: what is wrong, where
    fix TEXT        -- one line: what would mend it
);

---------------------------------------------------------------------------------------------------
-- Part 2. Storage of the long tables: texts are numbers of table `text`, words are codes
--
-- NAME_row is behind view NAME, and its columns mean what those of the view mean; only what is
-- stored differently is said here. All columns hold integers (counter_row.value a real). The type
-- is left out on purpose: SQLite then spares a check of every value, 8 % of the time that it takes
-- to write a command.

-- Every distinct name, site, label once. Absent texts have no row here: they read as NULL.
CREATE TABLE text (
    id INTEGER PRIMARY KEY, -- in order of first use
    text TEXT NOT NULL
);

CREATE TABLE op_row (
    id INTEGER PRIMARY KEY,
    parent,
    name,            -- text.id
    kind,            -- text.id
    site,            -- text.id
    shape,           -- text.id
    dtype,           -- code: f64 f32 f16 bf16 i32 i64 bool i8 f8e4m3 f8e5m2 from 0
    flops,
    bytes_read,
    bytes_written,
    bytes_broadcast
);

CREATE TABLE cmd_row (
    id INTEGER PRIMARY KEY,
    op,
    host,
    device,
    stream,
    seq,
    code NOT NULL,   -- kind | status << 8 | unit << 16 | (dtype + 1) << 24, without dtype 0 << 24,
                     -- | (caller + 1) << 32 if that is another than host;
                     -- kind: kernel collective copy fill hostfn record wait alloc free
                     -- record_stream graph marker hostread hostwrite from 0; status: pending ok
                     -- poisoned failed skipped from 0; unit: vector matrix from 0
    name,            -- text.id
    event,           -- text.id
    site,            -- text.id
    enqueue_ns,
    enqueued_ns,
    ready_ns,
    start_ns,
    finish_ns,
    flops,
    bytes_read,
    bytes_written,
    ts_source        -- text.id; NULL: the clock of the run (meta 'clock')
);

CREATE TABLE edge_row (
    src NOT NULL,
    dst NOT NULL,
    kind NOT NULL    -- code: stream event host collective allocator from 0
);

CREATE TABLE sync_row (
    id INTEGER PRIMARY KEY,
    host,
    kind NOT NULL,   -- code: stream event device future from 0
    target,          -- stream.id, device.id, or text.id of an event or a future
    begin_ns,
    end_ns,
    cmd
);

-- v_timing looks up which wait of a host saw a command first.
CREATE INDEX sync_by_target ON sync_row (kind, target, begin_ns);

CREATE TABLE buffer_row (
    id INTEGER PRIMARY KEY,
    device,
    block,
    memory,          -- text.id
    stream,
    bytes,
    label,           -- text.id
    alloc_cmd,
    role             -- code: other parameter gradient optimizer activation workspace communication
                     -- from 0
);

-- A row of its own, because a buffer is freed long after its row was written.
CREATE TABLE buffer_free_row (
    id INTEGER PRIMARY KEY, -- buffer.id
    free_cmd
);

CREATE TABLE buffer_role_row (
    buffer NOT NULL,
    role NOT NULL,   -- code, as in buffer_row
    after_cmd,
    ts_ns NOT NULL
);

CREATE TABLE access_row (
    cmd NOT NULL,
    buffer NOT NULL,
    offset NOT NULL,
    bytes NOT NULL,
    mode NOT NULL    -- code: 1 read, 2 write, 3 both
);

CREATE TABLE collective_row (
    id INTEGER PRIMARY KEY,
    communicator,
    seq,
    kind,            -- text.id
    bytes,
    dtype,           -- code, as in op_row
    root,
    peer,
    algorithm,       -- text.id
    protocol,        -- text.id
    emulated,
    modelled_ns
);

CREATE TABLE counter_row (
    device,
    name,            -- text.id
    ts_ns,
    value            -- real; NULL: not a number
);

-- These are empty but in imported traces: what a row of cmd_row and sync_row has more there.
CREATE TABLE cmd_import_row (
    id INTEGER PRIMARY KEY, -- cmd.id
    call,
    correlation,
    graph,
    grid             -- text.id
);

CREATE TABLE sync_import_row (
    id INTEGER PRIMARY KEY, -- sync.id
    target,          -- text.id, where sync_row.target does not say it; NULL: it does
    call,
    stream,
    device
);

CREATE TABLE call_row (
    id INTEGER PRIMARY KEY,
    merged,          -- NULL: its own id
    correlation,
    name,            -- text.id
    begin_ns,
    end_ns,
    host
);

CREATE TABLE stream_wait_row (
    id INTEGER PRIMARY KEY,
    stream,
    source,
    at_ns,
    record_ns,
    resolved NOT NULL -- 0, 1
);

CREATE TABLE overhead_row (
    process,
    name,            -- text.id
    begin_ns,
    end_ns,
    profiler NOT NULL -- 0, 1
);

CREATE TABLE slice_row (
    id INTEGER PRIMARY KEY, -- in the order of the file
    kind NOT NULL,   -- code: annotation operator function other from 0
    name,            -- text.id
    host,
    stream,
    begin_ns,
    end_ns,
    op
);

-- Part 1 again: a long table without texts.
-- Which commands of which ranks make up a collective.
CREATE TABLE collective_member (
    collective INTEGER NOT NULL, -- collective.id
    rank INTEGER NOT NULL,       -- in its communicator
    cmd INTEGER NOT NULL         -- cmd.id
);

---------------------------------------------------------------------------------------------------
-- Part 1b. Views over the storage

-- Logical operators: what the program called, and what that was lowered to.
CREATE VIEW op AS SELECT
    id,
    parent,          -- op.id it was lowered from (a redistribute, one half of a backward pass)
    (SELECT text FROM text WHERE id = r.name) AS name,
    (SELECT text FROM text WHERE id = r.kind) AS kind,   -- gemm, pointwise, reduce, ...
    (SELECT text FROM text WHERE id = r.site) AS site,   -- file:line, innermost frame outside the
                                                         -- library
    flops,           -- floating-point operations, a fused multiply-add counts as two. This and the
                     -- bytes are the share of the first device of its mesh, not the sum over all
    bytes_read,      -- streamed operands, each read once
    bytes_written,   -- results, each written once
    CASE dtype WHEN 0 THEN 'f64' WHEN 1 THEN 'f32' WHEN 2 THEN 'f16' WHEN 3 THEN 'bf16'
        WHEN 4 THEN 'i32' WHEN 5 THEN 'i64' WHEN 6 THEN 'bool' WHEN 7 THEN 'i8'
        WHEN 8 THEN 'f8e4m3' WHEN 9 THEN 'f8e5m2' END AS dtype,
    (SELECT text FROM text WHERE id = r.shape) AS shape, -- '[8, 4096]'
    bytes_broadcast  -- small operands that stay in cache, counted apart from bytes_read
FROM op_row AS r;

-- Commands: everything in a stream, and what hosts do to memory beside it.
CREATE VIEW cmd AS SELECT
    r.id,         -- in order of calls
    op,           -- op.id it works for
    host,         -- host.id that enqueued it
    device,       -- device.id
    stream,       -- stream.id
    seq,          -- position in its stream, from 1; 0 if it is in none
    CASE code & 255 WHEN 0 THEN 'kernel' WHEN 1 THEN 'collective' WHEN 2 THEN 'copy'
        WHEN 3 THEN 'fill' WHEN 4 THEN 'hostfn' WHEN 5 THEN 'record' WHEN 6 THEN 'wait'
        WHEN 7 THEN 'alloc' WHEN 8 THEN 'free' WHEN 9 THEN 'record_stream' WHEN 10 THEN 'graph'
        WHEN 11 THEN 'marker' WHEN 12 THEN 'hostread' WHEN 13 THEN 'hostwrite' END AS kind,
    (SELECT text FROM text WHERE id = r.name) AS name,
    (SELECT text FROM text WHERE id = r.event) AS event,  -- of record and wait: the event's name
    (SELECT text FROM text WHERE id = r.site) AS site,    -- file:line
    CASE code >> 8 & 255 WHEN 0 THEN 'pending'            -- not finished when the trace ended
        WHEN 1 THEN 'ok'
        WHEN 2 THEN 'poisoned'                            -- results are undefined: it raced, or
                                                          -- used what was undefined
        WHEN 3 THEN 'failed'                              -- the device failed it
        WHEN 4 THEN 'skipped' END AS status,              -- not run: what it follows has failed
    enqueue_ns,   -- the host's call began
    enqueued_ns,  -- and returned
    ready_ns,     -- everything it waited for was done
    start_ns,     -- on the device
    finish_ns,
    flops,        -- as in op, of this command alone: its own device's share
    bytes_read,
    bytes_written,
    CASE code >> 24 & 255
        WHEN 1 THEN 'f64' WHEN 2 THEN 'f32' WHEN 3 THEN 'f16' WHEN 4 THEN 'bf16'
        WHEN 5 THEN 'i32' WHEN 6 THEN 'i64' WHEN 7 THEN 'bool' WHEN 8 THEN 'i8'
        WHEN 9 THEN 'f8e4m3' WHEN 10 THEN 'f8e5m2' END AS dtype,
    coalesce((SELECT text FROM text WHERE id = r.ts_source),
        (SELECT value FROM meta WHERE key = 'clock')) AS ts_source, -- where start_ns and finish_ns
                                                                    -- come from
    CASE code >> 16 & 255 WHEN 0 THEN 'vector' WHEN 1 THEN 'matrix' END AS unit, -- as device_peak
    CASE code >> 32 WHEN 0 THEN host ELSE (code >> 32) - 1 END AS caller, -- host.id that called,
                                            -- not `host` where each device has a host to launch
    -- Imported traces only, else NULL:
    i.call,        -- call.id (the merged one) that enqueued it; NULL: unlinked
    i.correlation, -- the source's number, which links to calls of the same process
    i.graph,       -- captured graph that it is a node of
    (SELECT text FROM text WHERE id = i.grid) AS grid    -- '[64, 1, 1] x [256, 1, 1]': blocks of
                                                         -- threads
FROM cmd_row AS r LEFT JOIN cmd_import_row AS i ON i.id = r.id;

-- Why command dst could not start before command src had finished: stream (order of one stream),
-- event (a wait), host (the caller of dst knew that src was done: its first call since then),
-- collective (members start together), allocator (memory was reused). What hosts tell each other
-- are commands, of kind marker and in no stream, of those who tell; an edge of kind host leads from
-- one to the first call of the host that was told.
CREATE VIEW edge AS SELECT src, dst,
    CASE kind WHEN 0 THEN 'stream' WHEN 1 THEN 'event' WHEN 2 THEN 'host' WHEN 3 THEN 'collective'
        WHEN 4 THEN 'allocator' END AS kind
FROM edge_row
UNION ALL -- the order within streams follows from seq and is not stored
SELECT src, dst, 'stream' FROM (
    SELECT lag(id) OVER (PARTITION BY stream ORDER BY seq) AS src, id AS dst
    FROM cmd_row WHERE seq > 0)
WHERE src IS NOT NULL;

-- A host blocked on [begin_ns, end_ns).
CREATE VIEW sync AS SELECT
    r.id,
    host,      -- host.id
    CASE kind WHEN 0 THEN 'stream' WHEN 1 THEN 'event' WHEN 2 THEN 'device'
        WHEN 3 THEN 'future' END AS kind,
    coalesce((SELECT text FROM text WHERE id = i.target),
        CASE kind                          -- for people: 'stream compute of device 0', 'event e1',
                                           -- 'device 0', 'future loss'
        WHEN 0 THEN coalesce(
            (SELECT 'stream ' || coalesce(s.name, s.id) || ' of device ' || s.device
             FROM stream AS s WHERE s.id = r.target), 'stream ' || r.target)
        WHEN 2 THEN 'device ' || r.target
        ELSE CASE kind WHEN 1 THEN 'event' ELSE 'future' END ||
            coalesce((SELECT ' ' || text FROM text WHERE id = r.target), '') END) AS target,
    begin_ns,  -- the call began
    end_ns,    -- and returned
    cmd,       -- cmd.id of the command whose end it observed last
    -- Imported traces only, else NULL:
    i.call,    -- call.id (the merged one) that it is
    i.stream,  -- stream.id that it waits for
    i.device   -- device.id that it waits for
FROM sync_row AS r LEFT JOIN sync_import_row AS i ON i.id = r.id;

-- Allocations.
CREATE VIEW buffer AS SELECT
    id,
    device,     -- device.id; NULL: host memory that belongs to no device
    block,      -- block of the allocator: the same for every reuse of one piece of memory
    (SELECT text FROM text WHERE id = r.memory) AS memory, -- dev, pinned, pageable, managed
    stream,     -- stream.id it was allocated on
    bytes,
    (SELECT text FROM text WHERE id = r.label) AS label,   -- what it holds, or the scenario's line
    alloc_cmd,  -- cmd.id
    (SELECT free_cmd FROM buffer_free_row WHERE id = r.id) AS free_cmd, -- cmd.id; NULL: never freed
    CASE role WHEN 0 THEN 'other' WHEN 1 THEN 'parameter' WHEN 2 THEN 'gradient'
        WHEN 3 THEN 'optimizer' WHEN 4 THEN 'activation' WHEN 5 THEN 'workspace'
        WHEN 6 THEN 'communication' END AS role -- what it was allocated for; other: not said
FROM buffer_row AS r;

-- Other roles that buffers got while they were live: from then on their bytes count under it. Rows
-- are in the order in which that happened.
CREATE VIEW buffer_role AS SELECT
    buffer,     -- buffer.id
    CASE role WHEN 0 THEN 'other' WHEN 1 THEN 'parameter' WHEN 2 THEN 'gradient'
        WHEN 3 THEN 'optimizer' WHEN 4 THEN 'activation' WHEN 5 THEN 'workspace'
        WHEN 6 THEN 'communication' END AS role,
    after_cmd,  -- cmd.id of the last command called before; NULL: none
    ts_ns       -- the host's clock
FROM buffer_role_row;

-- What a command reads and writes: bytes [offset, offset + bytes) of a buffer. A record_stream has
-- one too, 'r' of the whole buffer that it is about; it reads nothing.
CREATE VIEW access AS SELECT cmd, buffer, offset, bytes,
    CASE mode WHEN 1 THEN 'r' WHEN 2 THEN 'w' WHEN 3 THEN 'rw' END AS mode
FROM access_row;

-- Collective operations; their commands are in collective_member.
CREATE VIEW collective AS SELECT
    id,
    communicator, -- communicator.id
    seq,          -- per communicator, from 0
    (SELECT text FROM text WHERE id = r.kind) AS kind,           -- all_reduce, all_gather, ...
    bytes,        -- of one rank's contribution, as its kind defines it
    CASE dtype WHEN 0 THEN 'f64' WHEN 1 THEN 'f32' WHEN 2 THEN 'f16' WHEN 3 THEN 'bf16'
        WHEN 4 THEN 'i32' WHEN 5 THEN 'i64' WHEN 6 THEN 'bool' WHEN 7 THEN 'i8'
        WHEN 8 THEN 'f8e4m3' WHEN 9 THEN 'f8e5m2' END AS dtype,
    root,         -- rank, of rooted kinds
    peer,         -- rank, of send and receive
    (SELECT text FROM text WHERE id = r.algorithm) AS algorithm, -- ring, direct; emulated, nccl
    (SELECT text FROM text WHERE id = r.protocol) AS protocol,   -- ll, ll128, simple
    emulated,     -- 1: by a kernel of one GPU that hosts all members: durations are those of its
                  -- memory, not of links
    modelled_ns   -- what the device spec's links would take, without waits; NULL: simulated, where
                  -- durations are a model's anyway, or there is no such link in the spec
FROM collective_row AS r;

-- Values over time: `value` holds from ts_ns until the next row of the same device and name.
CREATE VIEW counter AS SELECT
    device,       -- device.id
    (SELECT text FROM text WHERE id = r.name) AS name, -- 'memory bytes' (in live
                                                       -- buffers), 'reserved bytes' (taken from the
                                                       -- device), 'queue depth', ...
    ts_ns,
    value
FROM counter_row AS r
UNION ALL -- 'queue depth' follows from the commands: enqueued (the call began) and not finished
SELECT device, 'queue depth', ts_ns, value FROM (
    SELECT device, ts_ns, value,
        lag(value, 1, 0.0) OVER (PARTITION BY device ORDER BY ts_ns) AS before
    FROM (
        SELECT device, ts_ns,
            sum(sum(change)) OVER (PARTITION BY device ORDER BY ts_ns) * 1.0 AS value
        FROM (
            SELECT device, enqueue_ns AS ts_ns, 1 AS change FROM cmd_row
            WHERE seq > 0 AND device IS NOT NULL AND enqueue_ns IS NOT NULL
            UNION ALL
            SELECT device, finish_ns, -1 FROM cmd_row
            WHERE seq > 0 AND device IS NOT NULL AND enqueue_ns IS NOT NULL
                AND finish_ns IS NOT NULL)
        GROUP BY device, ts_ns))
WHERE value <> before;

-- API calls, as other tools recorded them; a run of ours has them in cmd (enqueue_ns, enqueued_ns).
CREATE VIEW call AS SELECT
    id,
    coalesce(merged, id) AS merged, -- calls of one process and correlation count as one, from the
                                    -- first begin to the last end: id of the one that began first
    correlation,
    (SELECT text FROM text WHERE id = r.name) AS name, -- cudaLaunchKernel
    begin_ns,
    end_ns,
    host                            -- host.id
FROM call_row AS r;

-- Of other tools' traces: from at_ns on (host time), a stream waits for what had been enqueued in
-- another one before record_ns.
CREATE VIEW stream_wait AS SELECT
    id,
    stream,     -- stream.id that waits
    source,     -- stream.id; NULL: not known
    at_ns,
    record_ns,
    resolved    -- 1; 0: which record it waits for is not known
FROM stream_wait_row;

-- Time that tracing itself, or the driver, took in a process.
CREATE VIEW overhead AS SELECT
    process,
    (SELECT text FROM text WHERE id = r.name) AS name, -- 'Buffer Flush'
    begin_ns,
    end_ns,
    profiler    -- 1: of the profiler; 0: of the driver
FROM overhead_row AS r;

-- Named stretches of a host's time, or of a stream's: never work of a device.
CREATE VIEW slice AS SELECT
    id,
    CASE kind WHEN 0 THEN 'annotation'  -- of the user: a step, a layer, an NVTX range
        WHEN 1 THEN 'operator'          -- a framework's: aten::mm
        WHEN 2 THEN 'function'          -- a frame of Python
        WHEN 3 THEN 'other' END AS kind,
    (SELECT text FROM text WHERE id = r.name) AS name,
    host,       -- host.id, or
    stream,     -- stream.id
    begin_ns,
    end_ns,
    op          -- op.id of the logical operator that it is
FROM slice_row AS r;

---------------------------------------------------------------------------------------------------
-- Part 3. The interval split

-- One row per command that is device work (kernel, collective, copy, fill) and has started and
-- finished. With a, b = enqueue_ns, enqueued_ns; s, e = start_ns, finish_ns; p = the largest end of
-- earlier work in its stream: x = min(b, s), y = max(x, min(p, s)), z = max(y, min(ready_ns, s)).
--     submission_ns   x - a   the host's call
--     stream_wait_ns  y - x   queued behind its own stream
--     dep_wait_ns     z - y   queued: waits for events, other devices, hosts
--     dispatch_ns     s - z   queued: everything was there, the device had not begun
--     queued_ns               the three above
--     device_ns       e - s   device service
--     sync_ns                 of the first host wait [q0, q1) that observed it: q1 - max(q0, e);
--                             NULL if no host waited for it. Lies after e.
-- submission + stream_wait + dep_wait + dispatch + device = e - a = total_ns, exactly. A command
-- without a call, or one that starts before its call (s < a, two clocks that disagree), has NULL in
-- all but device_ns and sync_ns. Imported traces do not say what was ready when: dispatch_ns
-- contains dep_wait_ns there, and records that make no sense (see v_work) are left out. Sums over
-- overlapping commands are not elapsed time.
CREATE VIEW v_timing AS
WITH
    -- Waits for an event or a future see the commands of one stream up to some position.
    reach AS (
        SELECT c.stream, c.seq, y.id AS sync
        FROM sync_row AS y JOIN cmd_row AS c ON c.id = y.cmd
        WHERE y.kind IN (1, 3) AND c.stream IS NOT NULL),
    work AS (
        SELECT id, op, device, stream, seq, enqueue_ns AS a, enqueued_ns AS b, ready_ns AS r,
            start_ns AS s, finish_ns AS e, NULL AS sync
        FROM cmd_row
        WHERE code & 255 <= 3 AND start_ns IS NOT NULL AND finish_ns IS NOT NULL
            AND (finish_ns >= start_ns AND (start_ns <> 0 OR finish_ns <> 0)
                OR NOT EXISTS (SELECT 1 FROM meta WHERE key = 'source_format'))
        UNION ALL
        SELECT NULL, NULL, NULL, stream, seq, NULL, NULL, NULL, NULL, NULL, sync FROM reach),
    seen AS (
        SELECT *,
            max(e) OVER (PARTITION BY stream ORDER BY seq, s, id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS p,
            min(sync) OVER (PARTITION BY stream ORDER BY seq DESC
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS by_event
        FROM work),
    -- Waits for a stream or a device see what was enqueued before they began.
    first AS (
        SELECT *,
            CASE WHEN stream IS NOT NULL THEN p END AS q,
            CASE WHEN stream IS NOT NULL THEN by_event END AS by_point,
            (SELECT y.id FROM sync_row AS y WHERE y.kind = 0 AND y.target = seen.stream
                AND y.begin_ns >= seen.a AND y.end_ns >= seen.e
                ORDER BY y.begin_ns, y.id LIMIT 1) AS by_stream,
            (SELECT y.id FROM sync_row AS y WHERE y.kind = 2 AND y.target = seen.device
                AND y.begin_ns >= seen.a AND y.end_ns >= seen.e
                ORDER BY y.begin_ns, y.id LIMIT 1) AS by_device
        FROM seen WHERE id IS NOT NULL),
    cut_x AS (SELECT *, CASE WHEN a <= s THEN min(coalesce(b, a), s) END AS x FROM first),
    cut_y AS (SELECT *, max(x, coalesce(min(q, s), x)) AS y FROM cut_x),
    cut_z AS (SELECT *, max(y, coalesce(min(r, s), y)) AS z FROM cut_y)
SELECT
    id AS cmd,
    op,
    device,
    stream,
    x - a AS submission_ns,
    y - x AS stream_wait_ns,
    z - y AS dep_wait_ns,
    s - z AS dispatch_ns,
    s - x AS queued_ns,
    e - s AS device_ns,
    (SELECT y.end_ns - max(y.begin_ns, e) FROM sync_row AS y
        WHERE y.id = min(coalesce(by_point, by_stream, by_device),
            coalesce(by_stream, by_device, by_point),
            coalesce(by_device, by_point, by_stream))) AS sync_ns,
    CASE WHEN x IS NOT NULL THEN e - a END AS total_ns
FROM cut_z;

-- The same summed over the commands of one logical operator. `commands` counts the rows behind a
-- sum, `unlinked` those of them without a submission (they are in device_ns alone). Commands that
-- work for no operator are summed in one row with op NULL.
CREATE VIEW v_op_timing AS SELECT
    t.op,
    (SELECT o.name FROM op AS o WHERE o.id = t.op) AS name,
    count(*) AS commands,
    count(*) - count(t.submission_ns) AS unlinked,
    sum(t.submission_ns) AS submission_ns,
    sum(t.stream_wait_ns) AS stream_wait_ns,
    sum(t.dep_wait_ns) AS dep_wait_ns,
    sum(t.dispatch_ns) AS dispatch_ns,
    sum(t.queued_ns) AS queued_ns,
    sum(t.device_ns) AS device_ns,
    sum(t.sync_ns) AS sync_ns,
    sum(t.total_ns) AS total_ns
FROM v_timing AS t GROUP BY t.op;

---------------------------------------------------------------------------------------------------
-- Part 4. Usual questions, of our own and of imported traces alike; docs/queries.md shows them
--
-- Definitions are those of `orrery analyze`, and so are the figures. All lengths are ns. Times
-- overlap in these tables as they do in the trace: what says "union" counts a moment once, other
-- sums do not. Costs are those of all rows of a trace of a million commands, CPU time.

-- Calls of runs of ours that launch captured graphs: all nodes carry the same stamps.
CREATE VIEW v_graph_call AS SELECT host, enqueue_ns AS begin_ns, enqueued_ns AS end_ns,
    min(id) AS cmd
FROM cmd_row WHERE code & 255 = 10 AND enqueued_ns >= enqueue_ns
GROUP BY host, enqueue_ns, enqueued_ns;

-- Work of devices: kernel, collective, copy, fill. A record that makes no sense is none (an end
-- before the start, both 0, a time beyond +-2^61); nor is what never started or never ended.
--     class    compute; comm: a collective, in imported traces a kernel whose name says so; copy
--     call, call_*   the call that enqueued it: call.id, in runs of ours cmd.id of the command, or
--              of the graph launch that it is a node of; NULL: unlinked
CREATE VIEW v_work AS SELECT
    r.id AS cmd,
    r.op,
    r.device,
    r.stream,
    CASE r.code & 255 WHEN 0 THEN 'kernel' WHEN 1 THEN 'collective' WHEN 2 THEN 'copy'
        WHEN 3 THEN 'fill' END AS kind,
    CASE
        WHEN r.code & 255 >= 2 THEN 'copy'
        WHEN r.code & 255 = 1 THEN 'comm'
        WHEN EXISTS (SELECT 1 FROM meta WHERE key = 'source_format')
            AND r.name IN (SELECT id FROM text WHERE text LIKE '%nccl%' OR text LIKE '%rccl%'
                OR text LIKE '%hccl%' OR text LIKE '%deepep%' OR text LIKE '%deep~_ep%' ESCAPE '~'
                OR text LIKE '%nvshmem%' OR text LIKE '%msccl%') THEN 'comm'
        ELSE 'compute' END AS class,
    r.name AS name_id, -- text.id
    (SELECT text FROM text WHERE id = r.name) AS name,
    r.start_ns,
    r.finish_ns,
    r.finish_ns - r.start_ns AS device_ns,
    r.host,
    CASE WHEN r.enqueued_ns >= r.enqueue_ns THEN coalesce(
        (SELECT call FROM cmd_import_row WHERE id = r.id),
        (SELECT g.cmd FROM v_graph_call AS g WHERE g.host = r.host AND g.begin_ns = r.enqueue_ns
            AND g.end_ns = r.enqueued_ns), r.id) END AS call,
    CASE WHEN r.enqueued_ns >= r.enqueue_ns THEN r.enqueue_ns END AS call_begin_ns,
    CASE WHEN r.enqueued_ns >= r.enqueue_ns THEN r.enqueued_ns END AS call_end_ns
FROM cmd_row AS r
WHERE r.code & 255 <= 3 AND r.finish_ns >= r.start_ns AND (r.start_ns <> 0 OR r.finish_ns <> 0)
    AND r.start_ns >= -(1 << 61) AND r.finish_ns <= 1 << 61;

-- Kernels and collectives by name, over all devices. 1 s.
CREATE VIEW v_kernel AS SELECT
    (SELECT text FROM text WHERE id = name_id) AS name,
    class,
    count(*) AS count,
    sum(device_ns) AS sum_ns,
    min(device_ns) AS min_ns,
    max(device_ns) AS max_ns,
    sum(device_ns) / count(*) AS mean_ns
FROM v_work WHERE kind IN ('kernel', 'collective') GROUP BY name_id, class;

-- Devices: the window from the first start to the last end, and how it is spent. Unions. 12 s.
-- compute + exposed_comm + exposed_copy + idle = span, exactly; `orrery analyze` divides idle.
CREATE VIEW v_device AS
WITH
    reach AS (SELECT *,
        max(finish_ns) OVER (PARTITION BY device ORDER BY start_ns, finish_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS p,
        max(finish_ns) OVER (PARTITION BY device, class ORDER BY start_ns, finish_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS p_class,
        max(finish_ns) OVER (PARTITION BY device, class = 'copy' ORDER BY start_ns, finish_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS p_kernels
        FROM v_work),
    total AS (SELECT device,
        count(*) AS ops,
        min(start_ns) AS first_ns,
        max(finish_ns) AS last_ns,
        sum(max(0, finish_ns - max(start_ns, coalesce(p, start_ns)))) AS busy_ns,
        sum(CASE WHEN class = 'compute'
            THEN max(0, finish_ns - max(start_ns, coalesce(p_class, start_ns))) ELSE 0 END)
            AS compute_ns,
        sum(CASE WHEN class = 'comm'
            THEN max(0, finish_ns - max(start_ns, coalesce(p_class, start_ns))) ELSE 0 END)
            AS comm_ns,
        sum(CASE WHEN class = 'copy'
            THEN max(0, finish_ns - max(start_ns, coalesce(p_class, start_ns))) ELSE 0 END)
            AS copy_ns,
        sum(CASE WHEN class <> 'copy'
            THEN max(0, finish_ns - max(start_ns, coalesce(p_kernels, start_ns))) ELSE 0 END)
            AS kernels_ns
        FROM reach GROUP BY device)
SELECT
    device,
    ops,
    first_ns,
    last_ns,
    last_ns - first_ns AS span_ns,
    busy_ns,
    compute_ns,
    comm_ns,
    copy_ns,
    kernels_ns - compute_ns AS exposed_comm_ns,
    busy_ns - kernels_ns AS exposed_copy_ns,
    compute_ns + comm_ns - kernels_ns AS comm_compute_overlap_ns,
    last_ns - first_ns - busy_ns AS idle_ns
FROM total;

-- Idle time of devices: stretches without any work. `next` is the command that ends one. 5 s.
CREATE VIEW v_idle AS
WITH reach AS (SELECT *,
    max(finish_ns) OVER (PARTITION BY device ORDER BY start_ns, finish_ns,
        call_begin_ns IS NULL, call_begin_ns, stream, cmd
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS p
    FROM v_work)
SELECT device, p AS begin_ns, start_ns AS end_ns, start_ns - p AS idle_ns, cmd AS next
FROM reach WHERE start_ns > p;

-- The same within streams, with a cause: unlinked (nobody knows who enqueued what comes next), host
-- (it was not enqueued yet), short (below 30 ns), queued (it was there, and waited for something
-- else). 6 s.
CREATE VIEW v_gap AS
WITH reach AS (SELECT *,
    max(finish_ns) OVER (PARTITION BY device, stream ORDER BY start_ns, finish_ns,
        call_begin_ns IS NULL, call_begin_ns, cmd
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS p
    FROM v_work)
SELECT device, stream, p AS begin_ns, start_ns AS end_ns, start_ns - p AS idle_ns,
    CASE WHEN call_begin_ns IS NULL THEN 'unlinked' WHEN call_begin_ns > p THEN 'host'
        WHEN start_ns - p < 30 THEN 'short' ELSE 'queued' END AS class,
    cmd AS next
FROM reach WHERE start_ns > p;

-- API calls; those that count as one are one row. `ops` is how much work it enqueued. In a run of
-- ours every command has one, and a graph launch is that of all its nodes. 6 s.
CREATE VIEW v_call AS
WITH
    owned AS (SELECT call, count(*) AS ops FROM v_work WHERE call IS NOT NULL GROUP BY call),
    merged AS (SELECT coalesce(merged, id) AS call, count(*) AS records,
            min(begin_ns) FILTER (WHERE end_ns >= begin_ns) AS a,
            max(end_ns) FILTER (WHERE end_ns >= begin_ns) AS b
        FROM call_row GROUP BY 1)
SELECT
    m.call,     -- call.id; in runs of ours cmd.id
    c.host,
    (SELECT text FROM text WHERE id = c.name) AS name,
    m.a AS begin_ns, -- of records that do not end before they begin; NULL: there is none
    m.b AS end_ns,
    m.b - m.a AS call_ns,
    m.records,
    coalesce(o.ops, 0) AS ops
FROM merged AS m JOIN call_row AS c ON c.id = m.call LEFT JOIN owned AS o ON o.call = m.call
UNION ALL
SELECT r.id, r.host, (SELECT text FROM text WHERE id = r.name), r.enqueue_ns, r.enqueued_ns,
    r.enqueued_ns - r.enqueue_ns, 1, coalesce(o.ops, 0)
FROM cmd_row AS r LEFT JOIN owned AS o ON o.call = r.id
WHERE r.enqueued_ns >= r.enqueue_ns AND r.host IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'source_format')
    AND (r.code & 255 = 10 OR NOT EXISTS (SELECT 1 FROM v_graph_call AS g WHERE g.host = r.host
        AND g.begin_ns = r.enqueue_ns AND g.end_ns = r.enqueued_ns));

-- Launches by device: calls that enqueued work of it, each once; `ops` is that work. 4 s.
CREATE VIEW v_launch AS
WITH launch AS (SELECT device, call, call_begin_ns AS a, call_end_ns AS b, count(*) AS ops
    FROM v_work WHERE call IS NOT NULL GROUP BY device, call)
SELECT device, count(*) AS calls, sum(ops) AS ops, sum(b - a) AS sum_ns, min(b - a) AS min_ns,
    max(b - a) AS max_ns, sum(b - a) / count(*) AS mean_ns
FROM launch GROUP BY device;

-- What the user named on threads (steps, layers), and the work that was enqueued meanwhile there.
-- Nested ones count it all. Annotations times commands of their thread: narrow it by name first.
CREATE VIEW v_step AS SELECT
    s.id AS slice,
    (SELECT text FROM text WHERE id = s.name) AS name,
    s.host,
    s.begin_ns,
    s.end_ns,
    s.end_ns - s.begin_ns AS step_ns,
    (SELECT count(*) FROM v_work AS w WHERE w.host = s.host AND w.call_begin_ns >= s.begin_ns
        AND w.call_begin_ns < s.end_ns) AS ops,
    (SELECT coalesce(sum(w.device_ns), 0) FROM v_work AS w WHERE w.host = s.host
        AND w.call_begin_ns >= s.begin_ns AND w.call_begin_ns < s.end_ns) AS device_ns
FROM slice_row AS s
WHERE s.kind = 0 AND s.host IS NOT NULL AND s.end_ns >= s.begin_ns;

-- Collectives whose members are in the trace: who arrived last, how long the others waited for it
-- in all, and the transfer behind that. A member arrives when it starts; simulated ones start
-- together, and arrive when all they waited for is done. A rank is a place in the communicator;
-- of several that arrive together none is last. Clocks are as in the trace. 2 s.
CREATE VIEW v_collective AS
WITH
    member AS (SELECT m.collective, m.rank, r.finish_ns,
            CASE WHEN EXISTS (SELECT 1 FROM meta WHERE key = 'source_format') THEN r.start_ns
                ELSE coalesce(r.ready_ns, r.start_ns) END AS arrival_ns
        FROM collective_member AS m JOIN cmd_row AS r ON r.id = m.cmd
        WHERE r.finish_ns >= r.start_ns),
    total AS (SELECT collective, count(*) AS members, max(arrival_ns) AS arrival_ns,
            max(arrival_ns) - min(arrival_ns) AS spread_ns,
            count(*) * max(arrival_ns) - sum(arrival_ns) AS wait_ns,
            min(finish_ns) - max(arrival_ns) AS transfer_ns
        FROM member GROUP BY collective)
SELECT
    t.collective,
    (SELECT text FROM text WHERE id = c.kind) AS kind,
    c.communicator,
    c.seq,
    c.bytes,
    t.members,
    t.arrival_ns,
    t.spread_ns,
    (SELECT CASE WHEN count(*) = 1 THEN min(rank) END FROM member AS m
        WHERE m.collective = t.collective AND m.arrival_ns = t.arrival_ns) AS last_rank,
    t.wait_ns,
    t.transfer_ns -- negative: the members do not overlap, or clocks disagree
FROM total AS t JOIN collective_row AS c ON c.id = t.collective;

-- Counters by device ('memory bytes' among them): the largest value, and when it was reached
-- first. 1 s.
CREATE VIEW v_memory AS SELECT
    device,
    (SELECT text FROM text WHERE id = name) AS name,
    max(value) AS peak, -- with it, of a bare column, SQLite takes the row that has the maximum
    ts_ns AS peak_ns,
    count(*) AS changes
FROM counter_row GROUP BY device, name;
