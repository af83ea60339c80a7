#include "hazards/check_json.h"

#include "hazards/text_builder.h"

static void build_index(struct orr__builder *line, uint32_t index) {
    if (index == ORR_NONE)
        orr__build_text(line, "null");
    else
        orr__build_format(line, "%u", index);
}

enum orr_status orr_check_verdict_json(const struct orr_check_verdict *verdict, const char *id,
                                       const struct orr_memory *memory, char **out_text) {
    struct orr__builder line = {.memory = memory};
    orr__build_text(&line, "{\"id\": ");
    if (id)
        orr__build_json_string(&line, id);
    else
        orr__build_text(&line, "null");
    orr__build_format(&line, ", \"verdict\": \"%s\", \"first_conflict_ops\": ",
                      orr_check_verdict_text(verdict->kind));
    if (verdict->op_b == ORR_NONE) {
        orr__build_text(&line, "null");
    } else {
        orr__build_text(&line, "[");
        build_index(&line, verdict->op_a);
        orr__build_text(&line, ", ");
        build_index(&line, verdict->op_b);
        orr__build_text(&line, "]");
    }
    orr__build_text(&line, ", \"message\": ");
    orr__build_json_string(&line, verdict->message ? verdict->message : "");
    orr__build_text(&line, ", \"fix\": ");
    orr__build_json_string(&line, verdict->fix ? verdict->fix : "");
    if (verdict->data)
        orr__build_text(&line, verdict->data);
    orr__build_text(&line, "}\n");
    *out_text = line.data;
    if (!line.failed)
        return ORR_OK;
    orr__builder_clear(&line);
    *out_text = NULL;
    return ORR_NO_MEMORY;
}
