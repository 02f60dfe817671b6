/** What `work` resolves with; rejects with `what` when that takes longer. The work goes on then, and nobody hears of it any more. */
export async function within<T>(limitMs: number, what: string, work: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`not within ${limitMs / 1000} s: ${what}`)), limitMs)
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
