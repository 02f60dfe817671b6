/** Mean over successful requests in milliseconds, to the microsecond; 0 when there were none. */
export function meanLatencyMs(latencyMsSum: number | bigint, successes: number | bigint): number {
  return Number(successes) === 0 ? 0 : Math.round((Number(latencyMsSum) / Number(successes)) * 1000) / 1000
}
