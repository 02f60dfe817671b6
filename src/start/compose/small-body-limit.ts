const BYTES_MAX = 1_048_576

/** Returns the limit of bodies that take no memory from the node's budget: those of keys and alerts are small. */
export function smallBodyLimit(bodyLimitBytes: number): number {
  return Math.min(bodyLimitBytes, BYTES_MAX)
}
