/* Peaks for the roofline of traces that do not say them: from the machine data of sim/fake_devices
 * by a device's name, and from the command line.
 *
 *     if (!orr_cli_parse_peaks("matrix.bf16=989e12,vector.f32=67e12", &peaks, &word)) ...
 *     status = orr_cli_fill_peaks(cli, timeline, &error);
 *
 * A name means a machine only if it means one board: "NVIDIA H100 80GB HBM3" is h100-sxm, "NVIDIA
 * H100 PCIe" is not, and has no peaks. If the trace tells the number of multiprocessors or the size
 * of the memory and the machine's is another, the name is not believed. Boards of the same chip
 * with another memory get the arithmetic's peaks and no bandwidth.
 *
 * Threads: one. */
#ifndef ORR_CLI_PEAKS_H
#define ORR_CLI_PEAKS_H

#include "analyzer/options.h"
#include "cli/cli.h"
#include "trace/timeline.h"

/* Fills in what devices of an imported timeline lack; their `profile` becomes the machine's name.
 * Our own timelines are left alone. ORR_NO_MEMORY. */
enum orr_status orr_cli_fill_peaks(const struct orr_cli *cli, struct orr_timeline *timeline,
                                   struct orr_error *error) ORR_MUST_CHECK;

/* "UNIT.DTYPE=FLOPS,...": units vector and matrix, rates above 0 in FLOP/s, as 989e12. NULL text:
 * nothing. Returns what is wrong, or NULL. */
const char *orr_cli_parse_peaks(const char *text, struct orr_analysis_peaks *out_peaks);
/* Byte/s, as 3.35e12; NULL text: nothing. Likewise. */
const char *orr_cli_parse_bandwidth(const char *text, struct orr_analysis_peaks *out_peaks);

#endif
