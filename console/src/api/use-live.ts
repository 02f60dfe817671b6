import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { LiveState } from '#api/live.ts'
import type { Overview } from '#api/operator/overview.ts'
import { readWhileVisible } from './event-stream.ts'
import { overviewQuery } from './operator-queries.ts'
import { sessionQuery } from './queries.ts'

/** The data of a screen is read again at most this often. */
const REREAD_MS = 2_000

/** What a screen reads again when the state differs in this respect. */
const areasOf = (before: LiveState | null, now: LiveState): string[] => {
  const areas = new Set<string>()
  if (before === null) return []
  if (before.balance_usd !== now.balance_usd) areas.add('credits')
  if (before.newest_request_id !== now.newest_request_id || before.requests_today !== now.requests_today) {
    for (const area of ['activity', 'usage', 'credits', 'keys', 'people']) areas.add(area)
  }
  for (const [topic, version] of Object.entries(now.versions)) {
    if (before.versions[topic as keyof LiveState['versions']] === version) continue
    for (const area of topic === 'budgets' ? ['keys', 'people', 'usage'] : [topic]) areas.add(area)
  }
  return [...areas]
}

/** Reads again what changes, as long as the tab is visible. */
export function useLive(customerId: string): void {
  const client = useQueryClient()
  useEffect(() => {
    let state: LiveState | null = null
    let rereading: ReturnType<typeof setTimeout> | undefined
    const changed = new Set<string>()

    function reread() {
      rereading = undefined
      for (const area of changed) void client.invalidateQueries({ queryKey: [area, customerId] })
      changed.clear()
    }

    const end = readWhileVisible<LiveState>(`customers/${customerId}/live`, {
      event: 'state',
      onEvent(now) {
        for (const area of areasOf(state, now)) changed.add(area)
        state = now
        if (changed.size > 0) rereading ??= setTimeout(reread, REREAD_MS)
      },
      // The balance is on every screen: reading it again shows whether the gateway is away.
      onBroken: () => void client.invalidateQueries({ queryKey: ['credits', customerId] }),
      onBack: () => void client.invalidateQueries(),
      onSessionEnded: () => void client.invalidateQueries({ queryKey: sessionQuery.queryKey }),
    })
    return () => {
      clearTimeout(rereading)
      end()
    }
  }, [client, customerId])
}

/** Shows the operator's overview as it changes, as long as the tab is visible. */
export function useLiveOverview(): void {
  const client = useQueryClient()
  useEffect(
    () =>
      readWhileVisible<Overview>('operator/live', {
        event: 'overview',
        onEvent: overview => client.setQueryData(overviewQuery.queryKey, overview),
        onBroken: () => void client.invalidateQueries({ queryKey: overviewQuery.queryKey }),
        onBack: () => void client.invalidateQueries(),
        onSessionEnded: () => void client.invalidateQueries({ queryKey: sessionQuery.queryKey }),
      }),
    [client],
  )
}
