import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { LiveEnd, LiveState } from '#api/live.ts'
import { sessionQuery } from './queries.ts'

/** How long a hidden tab keeps its stream. A browser opens only six connections to a server without HTTP/2. */
const HIDDEN_MS = 10_000
/** The data of a screen is read again at most this often. */
const REREAD_MS = 2_000

/** What a screen reads again when the state differs in this respect. */
const areasOf = (before: LiveState | null, now: LiveState): string[] => {
  const areas = new Set<string>()
  if (before === null) return []
  if (before.balance_usd !== now.balance_usd) areas.add('credits')
  if (before.newest_request_id !== now.newest_request_id || before.requests_today !== now.requests_today) {
    for (const area of ['activity', 'usage', 'credits', 'keys']) areas.add(area)
  }
  for (const [topic, version] of Object.entries(now.versions)) {
    if (before.versions[topic as keyof LiveState['versions']] !== version) areas.add(topic)
  }
  return [...areas]
}

/** Reads again what changes, as long as the tab is visible. */
export function useLive(customerId: string): void {
  const client = useQueryClient()
  useEffect(() => {
    let source: EventSource | null = null
    let state: LiveState | null = null
    let hiding: ReturnType<typeof setTimeout> | undefined
    let rereading: ReturnType<typeof setTimeout> | undefined
    const changed = new Set<string>()

    function reread() {
      rereading = undefined
      for (const area of changed) void client.invalidateQueries({ queryKey: [area, customerId] })
      changed.clear()
    }

    function open() {
      clearTimeout(hiding)
      if (source !== null) return
      source = new EventSource(`/console/api/customers/${customerId}/live`)
      source.addEventListener('state', ({ data }: MessageEvent<string>) => {
        const now = JSON.parse(data) as LiveState
        for (const area of areasOf(state, now)) changed.add(area)
        state = now
        if (changed.size > 0) rereading ??= setTimeout(reread, REREAD_MS)
      })
      source.addEventListener('end', ({ data }: MessageEvent<string>) => {
        // After `stopping`, the browser connects again by itself, to a gateway that runs.
        if ((JSON.parse(data) as LiveEnd).reason !== 'session_ended') return
        close()
        void client.invalidateQueries({ queryKey: sessionQuery.queryKey })
      })
    }

    function close() {
      source?.close()
      source = null
    }

    function onVisibility() {
      if (document.visibilityState === 'visible') open()
      else hiding = setTimeout(close, HIDDEN_MS)
    }

    onVisibility()
    document.addEventListener('visibilitychange', onVisibility)
    return () => {
      document.removeEventListener('visibilitychange', onVisibility)
      clearTimeout(hiding)
      clearTimeout(rereading)
      close()
    }
  }, [client, customerId])
}
