/** What a hostile party can use. */
export type Target = {
  /** `http://127.0.0.1:PORT` */
  origin: string
  /** The headers of a customer with a small credit and a high rate limit. */
  headers: Record<string, string>
  /** Aborted when the behaviour must end. */
  signal: AbortSignal
  /** Notes one event for the report, such as a status. */
  note: (event: string | number) => void
}

/** One way to harm other customers. Another customer is measured while it runs. */
export type Behaviour = {
  /** Short and unique: a row of the report. */
  name: string
  party: 'customer' | 'stranger'
  /** Runs until the signal is aborted. */
  run: (target: Target) => Promise<void>
}

/** Calls `act` at a fixed rate, whether or not earlier calls have ended, until the signal is aborted. */
export async function atRate(ratePerS: number, signal: AbortSignal, act: () => Promise<void>): Promise<void> {
  const running = new Set<Promise<void>>()
  for (let dueMs = performance.now(); !signal.aborted; dueMs += 1000 / ratePerS) {
    await new Promise(resolve => setTimeout(resolve, Math.max(0, dueMs - performance.now())))
    if (signal.aborted) break
    const call = act()
      .catch(() => {})
      .finally(() => running.delete(call))
    running.add(call)
  }
  await Promise.all(running)
}
