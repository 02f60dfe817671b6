/** How long a hidden tab keeps its stream. A browser opens only six connections to a server without HTTP/2. */
const HIDDEN_MS = 10_000

interface StreamEnd {
  readonly reason: 'session_ended' | 'stopping'
}

/**
 * Reads server-sent events as long as the tab is visible, and calls `onEvent` with the data of each event of this name.
 * Returns a function that ends it.
 *
 * @param options.onSessionEnded the person signed out, here or elsewhere; no event follows
 */
export function readWhileVisible<Data>(
  path: string,
  options: {
    readonly event: string
    readonly onEvent: (data: Data) => void
    readonly onSessionEnded: () => void
    /** The stream broke; the browser connects again by itself. Called once until then. */
    readonly onBroken: () => void
    /** The stream is open again after it broke. */
    readonly onBack: () => void
  },
): () => void {
  let source: EventSource | null = null
  let isBroken = false
  let hiding: ReturnType<typeof setTimeout> | undefined

  function open() {
    clearTimeout(hiding)
    if (source !== null) return
    source = new EventSource(`/console/api/${path}`)
    source.addEventListener(options.event, ({ data }: MessageEvent<string>) => options.onEvent(JSON.parse(data)))
    source.addEventListener('error', () => {
      if (!isBroken) options.onBroken()
      isBroken = true
    })
    source.addEventListener('open', () => {
      if (isBroken) options.onBack()
      isBroken = false
    })
    source.addEventListener('end', ({ data }: MessageEvent<string>) => {
      // After `stopping`, the browser connects again by itself, to a gateway that runs.
      if ((JSON.parse(data) as StreamEnd).reason !== 'session_ended') return
      close()
      options.onSessionEnded()
    })
  }

  function close() {
    source?.close()
    source = null
  }

  function onVisibility() {
    clearTimeout(hiding)
    if (document.visibilityState === 'visible') open()
    else hiding = setTimeout(close, HIDDEN_MS)
  }

  onVisibility()
  document.addEventListener('visibilitychange', onVisibility)
  return () => {
    document.removeEventListener('visibilitychange', onVisibility)
    clearTimeout(hiding)
    close()
  }
}
