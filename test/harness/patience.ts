/** For vi.waitFor, whose own limit is a second: what is waited for comes, and a busy machine is no failure. */
export const WAIT_OPTIONS = { timeout: 30_000, interval: 10 }

/** Time limits of a model server that only what a test stalls on purpose runs into, however busy the machine is. */
export const GENEROUS_TIMEOUTS = { connectMs: 10_000, firstTokenMs: 20_000, idleMs: 20_000, totalMs: 60_000 }
