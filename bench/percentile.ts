/** The value that `share` (0 to 1) of the sorted values do not exceed (nearest rank); 0 when there are none. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
}
