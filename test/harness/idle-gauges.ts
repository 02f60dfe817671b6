import type { Gauges } from '../../src/http/node-gauges.ts'

/** Gauges of a node that does nothing. */
export const idleGauges: Gauges = {
  inFlight: () => 0,
  memoryBytes: () => ({ used: 0, budget: 1_000 }),
  settleQueue: () => ({ length: 0, oldestMs: 0 }),
  journal: () => null,
  waitingForCredit: () => 0,
  damagedSegments: () => 0,
  pools: () => new Map(),
  agents: () => ({ connected: 0, idle: 0 }),
  endpoints: () => [],
  lastAudit: async () => undefined,
  backups: async () => undefined,
  schedules: async () => undefined,
  lateJob: async () => undefined,
}
