/** Mean over successful requests in milliseconds, to the microsecond; 0 when there were none. */
export function meanLatencyMs(latencyMsSum: bigint, successes: bigint): number {
  return successes === 0n ? 0 : Math.round((Number(latencyMsSum) / Number(successes)) * 1000) / 1000
}
