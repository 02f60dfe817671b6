import type { CancelSignal } from '../runtime/cancel-signal.ts'

interface DrainSource {
  on(event: 'drain', listener: () => void): unknown
  off(event: 'drain', listener: () => void): unknown
}

/** Resolves at the next 'drain' event, or when the signal is aborted. */
export function drained(source: DrainSource, signal: CancelSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) return resolve()
    const done = () => {
      source.off('drain', done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    source.on('drain', done)
    signal.addEventListener('abort', done)
  })
}
