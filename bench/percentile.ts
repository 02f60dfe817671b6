/** The percentile `share` (0 to 1) of sorted values by nearest rank; 0 without values. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
}
