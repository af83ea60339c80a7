-- The last batch has a rest, and the rank that gets it gathers that many rows; the others gather a
-- full share. Libraries compare nothing: they hang, or read past the end. Here the call is refused
-- before any rank waits in it, with both ranks, sizes and lines.
--
-- fixed=true: every rank pads its share to the same size.
--
-- devices: sim:teaching*4
-- test: fixed=true --check

local spmd = require "spmd"
local p = orrery.args{ fixed = false, rows = 1022, columns = 16 }
local world = spmd.world{ name = "data" }
local ranks = orrery.devices
local share = (p.rows + ranks - 1) // ranks

local function rows_of(rank)
    local rest = p.rows - share * rank
    return (p.fixed or rest >= share) and share or rest
end

local mine, all = {}, {}
for rank = 0, ranks - 1 do
    local bytes = share * p.columns * 4
    mine[rank] = orrery.device(rank):alloc(bytes, "rows")
    all[rank] = orrery.device(rank):alloc(bytes * ranks, "all rows")
    orrery.device(rank):stream("communicate"):kernel{ name = "embed", writes = {mine[rank]} }
    orrery.device(rank):sync()
end

orrery.host(function(rank)
    local me = world:rank(rank)
    me:barrier()
    me:all_gather{ input = mine[rank], output = all[rank], count = rows_of(rank) * p.columns }
    orrery.device(rank):sync()
end)
expect.clean()
