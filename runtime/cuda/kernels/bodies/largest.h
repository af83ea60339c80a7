/* The first largest of some elements, for one type: VALUE is double or int64_t, NAME(x) is x_f64 or
 * x_i64, BEATS(a, b) says whether a comes before b whatever their order is, LOWEST is what
 * everything beats, and LOAD and PUT read and write an element. Included once for each type. */

struct NAME(best) {
    VALUE value;
    int64_t index; /* below 0: no element yet */
};

/* The better of two elements in any order. */
DEVICE struct NAME(best) NAME(better)(struct NAME(best) one, struct NAME(best) other) {
    if (other.index < 0)
        return one;
    if (one.index < 0 || BEATS(other.value, one.value))
        return other;
    return other.index < one.index && !BEATS(one.value, other.value) ? other : one;
}

/* The best of all threads' elements, given to all threads. Shared memory has room for one element
 * of each thread. */
DEVICE struct NAME(best) NAME(block_best)(struct lane lane, struct NAME(best) best) {
    struct NAME(best) *all = (struct NAME(best) *)shared_memory(lane);
    int thread = thread_index(lane);
    block_sync(lane);
    all[thread] = best;
    block_sync(lane);
    for (int left = thread_count(lane); left > 1; left = (left + 1) / 2) {
        int other = thread + (left + 1) / 2;
        if (other < left)
            all[thread] = NAME(better)(all[thread], all[other]);
        block_sync(lane);
    }
    return all[0];
}

/* Takes an element with a higher index than all before. */
DEVICE void NAME(take)(struct NAME(best) * best, VALUE value, int64_t index) {
    if (best->index < 0 || BEATS(value, best->value)) {
        best->value = value;
        best->index = index;
    }
}
