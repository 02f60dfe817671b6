import { setTimeout as delay } from 'node:timers/promises'

/** The people with open pages. */
export interface Viewers {
  readonly origin: string
  readonly customerId: string
  /** The cookie of an owner of the customer, and that of an operator. */
  readonly ownerCookie: string
  readonly operatorCookie: string
}

/** The intervals of console/src/api/use-live.ts. */
const REREAD_MS = 2_000
const SUMS_MS = 10_000

/**
 * Opens as many pages as a visible tab each would: half of them the home screen of the customer with its live stream, half the
 * operator's overview with its own. Each page reads again what its stream hints at, as console/src/api/use-live.ts does.
 * The returned function closes them and returns how many answers and events they got.
 */
export function openConsoles(viewers: Viewers, pages: number): () => Promise<{ reads: number; events: number }> {
  const { origin, customerId, ownerCookie, operatorCookie } = viewers
  const closing = new AbortController()
  const counts = { reads: 0, events: 0 }
  const get = async (path: string, cookie: string) => {
    const headers = { cookie, 'sec-fetch-site': 'same-origin' }
    const response = await fetch(`${origin}/console/api/${path}`, { headers, signal: closing.signal })
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
    return response
  }
  const read = async (path: string, cookie: string) => {
    await (await get(path, cookie)).arrayBuffer()
    counts.reads++
  }
  const follow = async (path: string, cookie: string, onEvent: () => void) => {
    const { body } = await get(path, cookie)
    for await (const piece of body!.pipeThrough(new TextDecoderStream())) {
      const events = piece.match(/^event: (?!end)/gm)?.length ?? 0
      counts.events += events
      if (events > 0) onEvent()
    }
  }
  const home = async () => {
    let isChanged = false
    let sumsMs = -Infinity
    const rereading = (async () => {
      for (;;) {
        await delay(REREAD_MS, undefined, { signal: closing.signal })
        if (!isChanged) continue
        isChanged = false
        const readsSums = performance.now() - sumsMs >= SUMS_MS
        if (readsSums) sumsMs = performance.now()
        const paths = readsSums ? [...HOME, ...HOME_SUMS] : HOME
        await Promise.all(paths.map(path => read(`customers/${customerId}/${path}`, ownerCookie)))
      }
    })()
    const following = follow(`customers/${customerId}/live`, ownerCookie, () => {
      isChanged = true
    })
    await Promise.all([rereading, following])
  }
  // The overview shows the events of its stream, and reads nothing else.
  const overview = () => follow('operator/live', operatorCookie, () => {})
  let failure: unknown
  const open = Array.from({ length: pages }, (_, page) =>
    (page % 2 === 0 ? home() : overview()).catch(error => {
      if (!closing.signal.aborted) failure = error
    }),
  )
  return async () => {
    closing.abort()
    await Promise.all(open)
    if (failure !== undefined) throw failure
    return counts
  }
}

/** What the home screen reads again after a request: the areas `activity` and `credits`, and less often `usage`. */
const HOME = ['credits', 'usage/requests?limit=5']
const HOME_SUMS = ['limits', 'latency', 'usage/tokens?days=30&interval=day']
