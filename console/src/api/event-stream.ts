/** How long a hidden tab keeps its stream. A browser opens only six connections to a server without HTTP/2. */
const HIDDEN_MS = 10_000
/** The first wait before a refused stream is opened again. Each further one is twice as long, up to the longest. */
const RETRY_MS = 2_000
const RETRY_MS_MAX = 30_000

interface StreamEnd {
  readonly reason: 'session_ended' | 'stopping'
}

/**
 * Reads server-sent events as long as the tab is visible, and calls `onEvent` with the data of each event of this name.
 * Returns a function that ends it.
 *
 * @param options.onSessionEnded the person signed out, here or elsewhere
 */
export function readWhileVisible<Data>(
  path: string,
  options: {
    readonly event: string
    readonly onEvent: (data: Data) => void
    /** Resolves when a person is signed in again: the stream is then opened again. */
    readonly onSessionEnded: (signal: AbortSignal) => Promise<void>
    /** The stream broke or was refused; it is opened again by itself. Called once until then. */
    readonly onBroken: () => void
    /** The stream is open again after it broke or was refused. */
    readonly onBack: () => void
  },
): () => void {
  let source: EventSource | null = null
  let isBroken = false
  let hiding: ReturnType<typeof setTimeout> | undefined
  let retry: ReturnType<typeof setTimeout> | undefined
  let refusals = 0
  let isSignedOut = false
  const over = new AbortController()

  function open() {
    clearTimeout(hiding)
    clearTimeout(retry)
    if (source !== null || isSignedOut) return
    source = new EventSource(`/console/api/${path}`)
    source.addEventListener(options.event, ({ data }: MessageEvent<string>) => {
      refusals = 0
      options.onEvent(JSON.parse(data))
    })
    source.addEventListener('error', () => {
      if (!isBroken) options.onBroken()
      isBroken = true
      // A browser connects again by itself only after a broken connection. It gives up after another status than 200,
      // such as the 502 of a proxy while the gateway restarts, and after another content type.
      if (source?.readyState !== EventSource.CLOSED) return
      source = null
      retry = setTimeout(open, retryDelayMs(refusals++))
    })
    source.addEventListener('open', () => {
      if (isBroken) options.onBack()
      isBroken = false
    })
    source.addEventListener('end', ({ data }: MessageEvent<string>) => {
      // After `stopping`, the browser connects again. Until a gateway runs there, that is an error like others.
      if ((JSON.parse(data) as StreamEnd).reason !== 'session_ended') return
      close()
      isSignedOut = true
      // What changed until then is read again when the stream is open again.
      isBroken = true
      void options.onSessionEnded(over.signal).then(() => {
        isSignedOut = false
        if (!over.signal.aborted) retry = setTimeout(onVisibility, refusals === 0 ? 0 : retryDelayMs(refusals))
        refusals++
      })
    })
  }

  function close() {
    clearTimeout(retry)
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
    over.abort()
    close()
  }
}

/** Between half of the delay and all of it, so that the pages of many people do not all come back at once. */
function retryDelayMs(refusals: number): number {
  return Math.min(RETRY_MS * 2 ** refusals, RETRY_MS_MAX) * (0.5 + Math.random() / 2)
}
