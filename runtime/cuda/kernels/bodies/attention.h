/* Bodies of attention.cu, for one type of arithmetic: REAL is float or double, NAME(x) is x_f32 or
 * x_f64, LOAD and STORE read and write an element of a dtype, REAL_EXP and REAL_LOG are exp and
 * log, tiles have TILE x TILE scores. Included once for each type. */

/* A block's shared memory. Rows of tiles have one number more than they need, so that the threads
 * of a warp, which are in different rows, read from different banks. */
struct NAME(tiles) {
    int64_t *row_at, *key_at; /* [TILE] where in memory; -1: nowhere */
    int64_t *row_seen;        /* [TILE] keys that the row sees */
    int64_t *key;             /* [TILE] number of the key */
    REAL *x, *y;              /* [TILE, DEPTH + 1] rows and keys; or together z [TILE, WIDTH] */
    REAL *scores, *slopes;    /* [TILE, TILE + 1] by row and key */
    REAL *sums;               /* [TILE, WIDTH] of the result */
    REAL *parts_most, *parts; /* [PARTS, TILE] */
    REAL *most, *sum;         /* [TILE] of rows: the largest score so far, sum of exp(score - it) */
    REAL *factor, *delta;     /* [TILE] */
};

DEVICE struct NAME(tiles) NAME(tiles_of)(struct lane lane) {
    struct NAME(tiles) tiles;
    tiles.row_at = (int64_t *)shared_memory(lane);
    tiles.key_at = tiles.row_at + TILE;
    tiles.row_seen = tiles.key_at + TILE;
    tiles.key = tiles.row_seen + TILE;
    tiles.x = (REAL *)(tiles.key + TILE);
    tiles.y = tiles.x + TILE * (DEPTH + 1);
    tiles.scores = tiles.y + TILE * (DEPTH + 1);
    tiles.slopes = tiles.scores + TILE * (TILE + 1);
    tiles.sums = tiles.slopes + TILE * (TILE + 1);
    tiles.parts_most = tiles.sums + TILE * WIDTH;
    tiles.parts = tiles.parts_most + TILE * PARTS;
    tiles.most = tiles.parts + TILE * PARTS;
    tiles.sum = tiles.most + TILE;
    tiles.factor = tiles.sum + TILE;
    tiles.delta = tiles.factor + TILE;
    return tiles;
}

/* Rows first .. first + TILE - 1 of a head's queries become the tile's; waits for all threads. */
DEVICE void NAME(tile_rows)(struct lane lane, const struct orr__k_attention *shape,
                            const struct head *head, int64_t first,
                            const struct NAME(tiles) * tiles) {
    block_sync(lane);
    for (int i = thread_index(lane); i < TILE; i += thread_count(lane)) {
        tiles->row_at[i] = attention_row(shape, head, first + i);
        tiles->row_seen[i] = attention_seen(shape, head, first + i);
    }
    block_sync(lane);
}

DEVICE void NAME(tile_keys)(struct lane lane, const struct head *head, int64_t first,
                            const struct NAME(tiles) * tiles) {
    block_sync(lane);
    for (int i = thread_index(lane); i < TILE; i += thread_count(lane)) {
        tiles->key_at[i] = first + i < head->keys ? head->key_at + first + i : -1;
        tiles->key[i] = first + i;
    }
    block_sync(lane);
}

/* The largest number of keys that a row of the tile sees. */
DEVICE int64_t NAME(tile_seen)(const struct NAME(tiles) * tiles) {
    int64_t most = 0;
    for (int i = 0; i < TILE; i++)
        most = tiles->row_seen[i] > most ? tiles->row_seen[i] : most;
    return most;
}

/* [TILE, count] of a matrix whose rows have `width` elements, from column `first` on. */
DEVICE void NAME(tile_load)(struct lane lane, const void *from, int dtype, const int64_t *at,
                            int64_t width, int64_t first, int count, int stride, REAL *to) {
    for (int i = thread_index(lane); i < TILE * count; i += thread_count(lane)) {
        int row = i / count, column = i % count;
        to[row * stride + column] =
            at[row] < 0 ? (REAL)0 : LOAD(from, dtype, at[row] * width + first + column);
    }
}

/* to[row][key] = factor (row of x) (row of y), each of `width` elements. */
DEVICE void NAME(tile_products)(struct lane lane, const void *x, const void *y, int dtype,
                                int64_t width, REAL factor, const struct NAME(tiles) * tiles,
                                REAL *to) {
    enum { HALF = TILE / 2, STRIDE = TILE + 1, DEEP = DEPTH + 1 };
    for (int64_t first = 0; first == 0 || first < width; first += DEPTH) {
        int count = (int)(width - first < DEPTH ? width - first : DEPTH);
        bool last = first + DEPTH >= width;
        block_sync(lane);
        NAME(tile_load)(lane, x, dtype, tiles->row_at, width, first, count, DEEP, tiles->x);
        NAME(tile_load)(lane, y, dtype, tiles->key_at, width, first, count, DEEP, tiles->y);
        block_sync(lane);
        for (int i = thread_index(lane); i < HALF * HALF; i += thread_count(lane)) {
            int row = i / HALF, key = i % HALF;
            const REAL *x0 = tiles->x + row * DEEP, *x1 = x0 + HALF * DEEP;
            const REAL *y0 = tiles->y + key * DEEP, *y1 = y0 + HALF * DEEP;
            REAL *to0 = to + row * STRIDE + key, *to1 = to0 + HALF * STRIDE;
            REAL s00 = first ? to0[0] : 0, s01 = first ? to0[HALF] : 0;
            REAL s10 = first ? to1[0] : 0, s11 = first ? to1[HALF] : 0;
            for (int j = 0; j < count; j++) {
                s00 += x0[j] * y0[j];
                s01 += x0[j] * y1[j];
                s10 += x1[j] * y0[j];
                s11 += x1[j] * y1[j];
            }
            to0[0] = last ? s00 * factor : s00;
            to0[HALF] = last ? s01 * factor : s01;
            to1[0] = last ? s10 * factor : s10;
            to1[HALF] = last ? s11 * factor : s11;
        }
    }
    block_sync(lane);
}

/* sums[i][column] = keep[i] sums[i][column] + the sum over j of weights[i][j] z[j][column]; with
 * `across`, weights[j][i]. keep is 1 if it is NULL. Columns first .. first + count - 1 of z. */
DEVICE void NAME(tile_mix)(struct lane lane, const REAL *weights, bool across, const void *z,
                           int dtype, const int64_t *at, int64_t width, int64_t first, int count,
                           const REAL *keep, const struct NAME(tiles) * tiles) {
    enum { QUARTER = TILE / 4 };
    int row_step = across ? 1 : TILE + 1, inner_step = across ? TILE + 1 : 1;
    int columns = (count + 3) / 4;
    block_sync(lane);
    NAME(tile_load)(lane, z, dtype, at, width, first, count, WIDTH, tiles->x);
    block_sync(lane);
    for (int i = thread_index(lane); i < QUARTER * columns; i += thread_count(lane)) {
        int row = i / columns, column = i % columns;
        REAL sums[4][4] = {{0}};
        for (int j = 0; j < TILE; j++) {
            const REAL *values = tiles->x + j * WIDTH + column;
            const REAL *factors = weights + row * row_step + j * inner_step;
            REAL v[4], w[4];
            for (int k = 0; k < 4; k++) {
                v[k] = column + k * columns < count ? values[k * columns] : 0;
                w[k] = factors[k * QUARTER * row_step];
            }
            for (int k = 0; k < 4; k++)
                for (int n = 0; n < 4; n++)
                    sums[k][n] += w[k] * v[n];
        }
        for (int k = 0; k < 4; k++)
            for (int n = 0; n < 4; n++) {
                int at_row = row + k * QUARTER;
                REAL *to = tiles->sums + at_row * WIDTH + column + n * columns;
                if (column + n * columns < count)
                    *to = (keep ? keep[at_row] * *to : *to) + sums[k][n];
            }
    }
    block_sync(lane);
}

DEVICE void NAME(tile_clear)(struct lane lane, const struct NAME(tiles) * tiles) {
    for (int i = thread_index(lane); i < TILE * WIDTH; i += thread_count(lane))
        tiles->sums[i] = 0;
}

/* --- forward --- */

/* Scores become exp(score - most) with the rows' new largest scores, and `factor` what corrects the
 * sums so far. */
DEVICE void NAME(tile_softmax)(struct lane lane, const struct NAME(tiles) * tiles) {
    enum { SHARE = TILE / PARTS, STRIDE = TILE + 1 };
    for (int i = thread_index(lane); i < TILE * PARTS; i += thread_count(lane)) {
        int row = i % TILE, first = i / TILE * SHARE;
        const REAL *scores = tiles->scores + row * STRIDE;
        REAL most = -(REAL)INFINITY;
        for (int key = first; key < first + SHARE; key++)
            if (tiles->key[key] < tiles->row_seen[row] && scores[key] > most)
                most = scores[key];
        tiles->parts_most[i] = most;
    }
    block_sync(lane);
    for (int i = thread_index(lane); i < TILE * PARTS; i += thread_count(lane)) {
        int row = i % TILE, first = i / TILE * SHARE;
        REAL *scores = tiles->scores + row * STRIDE;
        REAL most = tiles->most[row], sum = 0;
        for (int part = 0; part < PARTS; part++)
            if (tiles->parts_most[part * TILE + row] > most)
                most = tiles->parts_most[part * TILE + row];
        most = most == -(REAL)INFINITY ? (REAL)0 : most;
        for (int key = first; key < first + SHARE; key++) {
            bool seen = tiles->key[key] < tiles->row_seen[row];
            scores[key] = seen ? REAL_EXP(scores[key] - most) : (REAL)0;
            sum += scores[key];
        }
        tiles->parts[i] = sum;
    }
    block_sync(lane);
    for (int row = thread_index(lane); row < TILE; row += thread_count(lane)) {
        REAL before = tiles->most[row], most = before, sum = 0;
        for (int part = 0; part < PARTS; part++) {
            if (tiles->parts_most[part * TILE + row] > most)
                most = tiles->parts_most[part * TILE + row];
            sum += tiles->parts[part * TILE + row];
        }
        tiles->factor[row] = before == most ? (REAL)1 : REAL_EXP(before - most);
        tiles->sum[row] = tiles->sum[row] * tiles->factor[row] + sum;
        tiles->most[row] = most;
    }
    block_sync(lane);
}

DEVICE void NAME(attend_store)(struct lane lane, const struct orr__k_attend *a, int64_t first,
                               int count, const struct NAME(tiles) * tiles) {
    for (int i = thread_index(lane); a->out && i < TILE * count; i += thread_count(lane)) {
        int row = i / count, column = i % count;
        REAL sum = tiles->sums[row * WIDTH + column];
        REAL value = tiles->row_seen[row] ? sum / tiles->sum[row] : (REAL)0;
        if (tiles->row_at[row] >= 0)
            STORE(a->out, a->shape.dtype, tiles->row_at[row] * a->shape.dv + first + column, value);
    }
    for (int row = thread_index(lane); first == 0 && row < TILE; row += thread_count(lane)) {
        if (tiles->row_at[row] < 0)
            continue;
        REAL most = tiles->most[row], sum = tiles->sum[row];
        if (a->lse)
            ((REAL *)a->lse)[tiles->row_at[row]] =
                tiles->row_seen[row] ? most + REAL_LOG(sum) : -(REAL)INFINITY;
        if (a->stats) {
            ((REAL *)a->stats)[tiles->row_at[row] * 2] = most;
            ((REAL *)a->stats)[tiles->row_at[row] * 2 + 1] = 1 / sum;
        }
    }
}

TILE_KERNEL(NAME(attend), struct orr__k_attend) {
    const struct orr__k_attention *shape = &a->shape;
    struct NAME(tiles) tiles = NAME(tiles_of)(lane);
    int64_t rows = attention_ceiling(shape->h / shape->hkv * shape->s, TILE);
    int64_t parts = a->out && shape->dv > WIDTH ? attention_ceiling(shape->dv, WIDTH) : 1;
    int64_t items = shape->b * shape->hkv * shape->blocks * rows * parts;
    for (int64_t item = block_index(lane); item < items; item += block_count(lane)) {
        struct head head = attention_head(lane, shape, item / parts / rows);
        int64_t column = item % parts * WIDTH;
        int count = (int)(shape->dv - column < WIDTH ? shape->dv - column : WIDTH);
        NAME(tile_rows)(lane, shape, &head, item / parts % rows * TILE, &tiles);
        int64_t seen = NAME(tile_seen)(&tiles);
        NAME(tile_clear)(lane, &tiles);
        for (int i = thread_index(lane); i < TILE; i += thread_count(lane)) {
            tiles.most[i] = -(REAL)INFINITY;
            tiles.sum[i] = 0;
        }
        for (int64_t key = 0; key < seen; key += TILE) {
            NAME(tile_keys)(lane, &head, key, &tiles);
            TILE_PRODUCTS(lane, a->q, a->k, shape->dtype, shape->d, (REAL)shape->scale, &tiles,
                          tiles.scores);
            NAME(tile_softmax)(lane, &tiles);
            if (a->out)
                TILE_MIX(lane, tiles.scores, false, a->v, shape->dtype, tiles.key_at, shape->dv,
                         column, count, tiles.factor, &tiles);
        }
        block_sync(lane);
        NAME(attend_store)(lane, a, column, count, &tiles);
    }
}

/* --- backward --- */

TILE_KERNEL(NAME(attention_delta), struct orr__k_attention_delta) {
    REAL *scratch = (REAL *)shared_memory(lane);
    for (int64_t row = block_index(lane); row < a->rows; row += block_count(lane)) {
        REAL sum = 0;
        for (int64_t i = thread_index(lane); i < a->dv; i += thread_count(lane))
            sum +=
                LOAD(a->grad, a->dtype, row * a->dv + i) * LOAD(a->out, a->dtype, row * a->dv + i);
        sum = NAME(block_sum)(lane, sum, 0, scratch);
        if (thread_index(lane) != 0)
            continue;
        ((REAL *)a->delta)[row] = sum;
        if (a->lse) {
            ((REAL *)a->stats)[row * 2] = ((const REAL *)a->lse)[row];
            ((REAL *)a->stats)[row * 2 + 1] = 1;
        }
    }
}

/* Probabilities and the slopes of scores of the tile's rows and keys, into scores and slopes; those
 * of dv are not needed. */
DEVICE void NAME(tile_slopes)(struct lane lane, const struct orr__k_attention_back *a,
                              const struct NAME(tiles) * tiles) {
    const struct orr__k_attention *shape = &a->shape;
    bool wants_slopes = a->of != ORR__ATTENTION_DV;
    REAL scale = (REAL)shape->scale;
    TILE_PRODUCTS(lane, a->q, a->k, shape->dtype, shape->d, scale, tiles, tiles->scores);
    if (wants_slopes)
        TILE_PRODUCTS(lane, a->grad, a->v, shape->dtype, shape->dv, 1, tiles, tiles->slopes);
    for (int i = thread_index(lane); i < TILE * TILE; i += thread_count(lane)) {
        int row = i / TILE, key = i % TILE, at = row * (TILE + 1) + key;
        bool seen = tiles->key[key] < tiles->row_seen[row];
        REAL p = seen ? REAL_EXP(tiles->scores[at] - tiles->most[row]) * tiles->sum[row] : (REAL)0;
        tiles->scores[at] = p;
        if (wants_slopes)
            tiles->slopes[at] = seen ? p * (tiles->slopes[at] - tiles->delta[row]) * scale : 0;
    }
    block_sync(lane);
}

/* tile_rows with the rows' numbers for tile_slopes: `sum` is 1 / sum here. */
DEVICE void NAME(tile_stats)(struct lane lane, const struct orr__k_attention_back *a,
                             const struct head *head, int64_t first,
                             const struct NAME(tiles) * tiles) {
    NAME(tile_rows)(lane, &a->shape, head, first, tiles);
    for (int i = thread_index(lane); i < TILE; i += thread_count(lane)) {
        int64_t at = tiles->row_at[i];
        tiles->most[i] = at < 0 ? (REAL)0 : ((const REAL *)a->stats)[at * 2];
        tiles->sum[i] = at < 0 ? (REAL)0 : ((const REAL *)a->stats)[at * 2 + 1];
        tiles->delta[i] = at < 0 ? (REAL)0 : ((const REAL *)a->delta)[at];
    }
    block_sync(lane);
}

DEVICE void NAME(back_store)(struct lane lane, const struct orr__k_attention_back *a,
                             const int64_t *at, int64_t width, int64_t first, int count,
                             const struct NAME(tiles) * tiles) {
    block_sync(lane);
    for (int i = thread_index(lane); i < TILE * count; i += thread_count(lane)) {
        int row = i / count, column = i % count;
        if (at[row] >= 0)
            STORE(a->to, a->shape.dtype, at[row] * width + first + column,
                  tiles->sums[row * WIDTH + column]);
    }
    block_sync(lane);
}

/* A tile of dq. */
DEVICE void NAME(back_rows)(struct lane lane, const struct orr__k_attention_back *a,
                            const struct head *head, int64_t first, int64_t column, int count,
                            const struct NAME(tiles) * tiles) {
    const struct orr__k_attention *shape = &a->shape;
    NAME(tile_stats)(lane, a, head, first, tiles);
    int64_t seen = NAME(tile_seen)(tiles);
    for (int64_t key = 0; key < seen; key += TILE) {
        NAME(tile_keys)(lane, head, key, tiles);
        NAME(tile_slopes)(lane, a, tiles);
        TILE_MIX(lane, tiles->slopes, false, a->k, shape->dtype, tiles->key_at, shape->d, column,
                 count, NULL, tiles);
    }
    NAME(back_store)(lane, a, tiles->row_at, shape->d, column, count, tiles);
}

/* A tile of dk or dv: all rows that see one of its keys. */
DEVICE void NAME(back_keys)(struct lane lane, const struct orr__k_attention_back *a,
                            const struct head *head, int64_t first, int64_t column, int count,
                            const struct NAME(tiles) * tiles) {
    const struct orr__k_attention *shape = &a->shape;
    bool of_k = a->of == ORR__ATTENTION_DK;
    for (int64_t row = 0; row < head->rows && head->keys > 0; row += TILE) {
        NAME(tile_stats)(lane, a, head, row, tiles);
        if (NAME(tile_seen)(tiles) <= first)
            continue;
        NAME(tile_keys)(lane, head, first, tiles);
        NAME(tile_slopes)(lane, a, tiles);
        TILE_MIX(lane, of_k ? tiles->slopes : tiles->scores, true, of_k ? a->q : a->grad,
                 shape->dtype, tiles->row_at, of_k ? shape->d : shape->dv, column, count, NULL,
                 tiles);
    }
    block_sync(lane);
    /* Keys that nobody sees have a gradient of 0. */
    for (int i = thread_index(lane); i < TILE; i += thread_count(lane))
        tiles->key_at[i] = first + i < shape->t ? head->key_at + first + i : -1;
    NAME(back_store)(lane, a, tiles->key_at, of_k ? shape->d : shape->dv, column, count, tiles);
}

TILE_KERNEL(NAME(attention_back), struct orr__k_attention_back) {
    const struct orr__k_attention *shape = &a->shape;
    struct NAME(tiles) tiles = NAME(tiles_of)(lane);
    int64_t width = a->of == ORR__ATTENTION_DV ? shape->dv : shape->d;
    int64_t length = a->of == ORR__ATTENTION_DQ ? shape->h / shape->hkv * shape->s : shape->t;
    int64_t parts = attention_ceiling(width, WIDTH), pieces = attention_ceiling(length, TILE);
    int64_t items = shape->b * shape->hkv * shape->blocks * pieces * parts;
    for (int64_t item = block_index(lane); item < items; item += block_count(lane)) {
        struct head head = attention_head(lane, shape, item / parts / pieces);
        int64_t column = item % parts * WIDTH, first = item / parts % pieces * TILE;
        int count = (int)(width - column < WIDTH ? width - column : WIDTH);
        NAME(tile_clear)(lane, &tiles);
        if (a->of == ORR__ATTENTION_DQ)
            NAME(back_rows)(lane, a, &head, first, column, count, &tiles);
        else
            NAME(back_keys)(lane, a, &head, first, column, count, &tiles);
    }
}

/* --- the sum of two results over different keys --- */

TILE_KERNEL(NAME(attention_merge), struct orr__k_attention_merge) {
    int64_t width = a->dv > 0 ? a->dv : 1; /* lse is there for results without columns, too */
    for (int64_t i = first_index(lane); i < a->rows * width; i += index_step(lane)) {
        int64_t row = i / width;
        REAL lse_a = ((const REAL *)a->lse_a)[row], lse_b = ((const REAL *)a->lse_b)[row];
        REAL most = lse_a > lse_b || lse_a != lse_a ? lse_a : lse_b;
        REAL share_a = 0, share_b = 0, lse = most;
        if (most != -(REAL)INFINITY) {
            REAL x = REAL_EXP(lse_a - most), y = REAL_EXP(lse_b - most);
            share_a = x / (x + y);
            share_b = y / (x + y);
            lse = most + REAL_LOG(x + y);
        }
        if (a->dv > 0)
            STORE(a->out, a->dtype_a, i,
                  share_a * LOAD(a->out_a, a->dtype_a, i) +
                      share_b * LOAD(a->out_b, a->dtype_b, i));
        if (i % width == 0)
            ((REAL *)a->lse)[row] = lse;
    }
}
