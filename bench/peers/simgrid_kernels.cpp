// Peer of the simulator: SimGrid (S4U). One actor for each host runs executions one after another,
// of the same durations as bench/des_floor.h; with "exchange" each is followed by sending 1 MiB to
// the next host and receiving as much from the one before.
//
//     simgrid_kernels kernels|exchange HOSTS COUNT
//
// Prints CPU nanoseconds per activity, and the simulated time at the end in nanoseconds.
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <time.h>
#include <vector>

namespace s4u = simgrid::s4u;

static double cpu_s() {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

static std::vector<s4u::Host *> build_platform(int count) {
    std::vector<s4u::Host *> hosts;
    auto *zone = s4u::create_star_zone("zone");
    for (int i = 0; i < count; i++) {
        auto *host = zone->create_host("h" + std::to_string(i), 1e12);
        auto *link = zone->create_split_duplex_link("l" + std::to_string(i), 100e9);
        link->set_latency(1e-6);
        zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                        {{link, s4u::LinkInRoute::Direction::UP}}, true);
        hosts.push_back(host);
    }
    zone->seal();
    return hosts;
}

static double flops_of(long host, long kernel) {
    return 1e7 + 1e3 * double((host * 7919 + kernel * 104729) % 1000);
}

static void run_kernels(long host, long count) {
    for (long j = 0; j < count; j++)
        s4u::this_actor::execute(flops_of(host, j));
}

static void run_exchanges(long host, long hosts, long count) {
    auto *out = s4u::Mailbox::by_name("m" + std::to_string((host + 1) % hosts));
    auto *in = s4u::Mailbox::by_name("m" + std::to_string(host));
    static int token;
    int *received;
    for (long j = 0; j < count; j++) {
        s4u::this_actor::execute(flops_of(host, j));
        auto send = out->put_async(&token, 1 << 20);
        auto receive = in->get_async<int>(&received);
        receive->wait();
        send->wait();
    }
}

int main(int argc, char **argv) {
    s4u::Engine engine(&argc, argv);
    if (argc < 4)
        return 2;
    engine.set_config("network/model:CM02");
    bool exchanges = std::string(argv[1]) == "exchange";
    long hosts = atol(argv[2]), count = atol(argv[3]);
    std::vector<s4u::Host *> machines = build_platform(int(hosts));
    for (long i = 0; i < hosts; i++)
        s4u::Actor::create("a", machines[size_t(i)], [=] {
            exchanges ? run_exchanges(i, hosts, count) : run_kernels(i, count);
        });
    double begin_s = cpu_s();
    engine.run();
    double spent_s = cpu_s() - begin_s;
    double activities = double(hosts) * double(count) * (exchanges ? 2 : 1);
    printf("%.3f\n%.0f\n", spent_s / activities * 1e9, s4u::Engine::get_clock() * 1e9);
    return 0;
}
