"""The rigs: long runs that try the whole router, each by its own make target, and write a page into
bench/results.

    faults      the whole circle while its parts are killed, paused and cut off (`make faults`,
                `make soak`)
    neighbours  what a quiet tenant feels beside a bad one (`make neighbours`)
    money       hostile tenants, workers and providers, and what was billed (`make money`)
    powercut    what is left of what was acknowledged when servers lose power (`make powercut`)
    refusals    each refusal of a publish, each kind of process (`make refusals`)
    strategies  four providers under each strategy (`make strategies`, `make strategy-costs`)
    canaries    simulated canaries, and how soon a worse candidate is found (`make canaries`)
    mutants     small faults in what decides: do the nearest tests notice? (`make mutants`)
    fuzz        damaged and hostile messages for every decoder (`make fuzz`)

Beside a rig stand its tests: what it computes, and one short run of it. `make test-all` runs them.
"""
