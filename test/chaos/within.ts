/** Awaits `work` with a time limit. Rejects with `what` after the limit; the work continues, and its result is ignored. */
export async function within<T>(limitMs: number, what: string, work: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`timed out after ${limitMs / 1000} s: ${what}`)), limitMs)
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
