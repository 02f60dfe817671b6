/** For vi.waitFor: its default of one second is too short on a busy machine. */
export const WAIT_OPTIONS = { timeout: 90_000, interval: 10 }

/** Timeouts of a model server that are exceeded only if a test stalls on purpose, even on a busy machine. */
export const GENEROUS_TIMEOUTS = {
  connectMs: 30_000,
  firstTokenMs: 20_000,
  tokenMs: 20,
  idleMs: 20_000,
  totalMs: 60_000,
}
