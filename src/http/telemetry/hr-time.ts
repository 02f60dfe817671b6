import type { HrTime } from '@opentelemetry/api'

/** Returns the seconds and nanoseconds of a time since the epoch. */
export function hrTime(epochMs: number): HrTime {
  return [Math.floor(epochMs / 1_000), Math.round((epochMs % 1_000) * 1e6)]
}
