-- Pipeline schedules as text, and back. require "pipeline" is the way in.
--
--     F3   forward of microbatch 3        F3b, F3c   of the rank's second, third chunk
--     B3   backward; where there is a W of the same, the input gradient only
--     W3   weight gradient                f3 b3 w3   of replica 1
--     .    the rank waits                 F3--       it takes longer than one column

local order = require "pipeline_order"

local draw = {}

local fail = order.fail

-- Place of a stage among those of its rank and replica, from 0.
local function chunk_of(schedule, action)
    local chunk, replica = 0, action.replica or 0
    for _, at in ipairs(schedule.stages[schedule.rank_of(action.stage, replica) + 1]) do
        if at.replica == replica and at.stage < action.stage then
            chunk = chunk + 1
        end
    end
    if chunk > 25 then
        fail("a rank with more than 26 stages can't be drawn")
    end
    return chunk
end

local function label(schedule, action)
    local chunk = chunk_of(schedule, action)
    local letter = action.kind:sub(1, 1)
    return ((action.replica or 0) == 1 and letter:lower() or letter) .. action.microbatch ..
        (chunk > 0 and string.char(97 + chunk) or "")
end

local function divisor(a, b)
    while b > 0 do
        a, b = b, a % b
    end
    return a
end

-- The time of one column, and the number of columns.
local function grid(start, finish)
    local unit, last = 0, 0
    for r in ipairs(start) do
        for k, begin in ipairs(start[r]) do
            unit = divisor(divisor(unit, begin), finish[r][k])
            last = math.max(last, finish[r][k])
        end
    end
    unit = math.max(unit, 1)
    return unit, last // unit
end

-- The columns first .. last - 1 of a rank. `labels`, `start` and `finish` are lists.
local function row(labels, start, finish, unit, first, last, width)
    local cells = {}
    for k, text in ipairs(labels) do
        local from, to = start[k] // unit, finish[k] // unit
        for column = math.max(from, first), math.min(to, last) - 1 do
            local cell = column == from and text or ""
            local goes_on = column + 1 < to
            cell = cell .. (goes_on and "-" or column > from and "-" or " "):rep(width - #cell)
            cells[column - first + 1] = goes_on and cell or cell:sub(1, -2) .. " "
        end
    end
    for column = 1, last - first do
        cells[column] = cells[column] or "." .. (" "):rep(width - 1)
    end
    return (table.concat(cells):gsub(" +$", ""))
end

-- One row a rank, cut to `options.width` letters (100) from column `options.from` (0) on, and what
-- the columns mean. `start` and `finish` are those of the walk.
function draw.text(schedule, start, finish, options)
    local labels, width = {}, 0
    for r, list in ipairs(schedule.ranks) do
        labels[r] = {}
        for k, action in ipairs(list) do
            labels[r][k] = label(schedule, action)
            width = math.max(width, #labels[r][k] + 1)
        end
    end
    local unit, columns = grid(start, finish)
    local head = #("rank " .. #labels - 1) + 2
    local first = math.min(options.from or 0, columns)
    local last = math.min(columns,
                          first + math.max(1, ((options.width or 100) - head + 1) // width))
    local lines = {}
    for r in ipairs(labels) do
        local start_of_line = "rank " .. r - 1
        lines[r] = start_of_line .. (" "):rep(head - #start_of_line) ..
            row(labels[r], start[r], finish[r], unit, first, last, width)
    end
    local note = string.format("a column is %d", unit)
    if first > 0 or last < columns then
        note = note .. string.format("; columns %d to %d of %d are shown", first, last - 1, columns)
    end
    lines[#lines + 1] = "(" .. note .. ")"
    return table.concat(lines, "\n") .. "\n"
end

-- --- and back ---

local kinds = { F = "F", B = "BW", W = "W" }

-- Stage of a rank's chunk: 0, 1, ... round and round, or up and down.
local function stage_at(rank, ranks, chunk, back)
    return chunk * ranks + (back and chunk % 2 == 1 and ranks - 1 - rank or rank)
end

local function read_row(line, rank, ranks, back)
    local list, split = {}, {}
    line = line:gsub("^%s*rank%s+%d+%s", "")
    for word in line:gmatch("%S+") do
        local letter, microbatch, chunk = word:match("^([FBWfbw])(%d+)([b-z]?)%-*$")
        if letter then
            local replica = letter:upper() == letter and 0 or 1
            local stage = stage_at(replica == 0 and rank or ranks - 1 - rank, ranks,
                                   chunk == "" and 0 or chunk:byte() - 97, back)
            local action = { kind = kinds[letter:upper()], stage = stage, replica = replica,
                             microbatch = math.tointeger(microbatch) }
            list[#list + 1] = action
            if action.kind == "W" then
                split[stage .. "/" .. microbatch] = true
            end
        elseif not word:match("^[.%-]+$") then
            fail("rank %d: '%s'; expected words like F0, B0, W0, F0b, f0 or .", rank, word)
        end
    end
    for _, action in ipairs(list) do
        if action.kind == "BW" and split[action.stage .. "/" .. action.microbatch] then
            action.kind = "B"
        end
    end
    return list
end

-- Lists from rows, one a rank.
function draw.parse(text, back)
    local lines, lists = {}, {}
    for line in (text .. "\n"):gmatch("(.-)\n") do
        if line:match("%S") and not line:match("^%s*%(") then
            lines[#lines + 1] = line
        end
    end
    for r, line in ipairs(lines) do
        lists[r] = read_row(line, r - 1, #lines, back)
    end
    return lists
end

return draw
